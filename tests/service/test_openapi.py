"""The OpenAPI description, held against the server by schemathesis: nothing breaks, and answers are as described.

A few cases always; SMOOTHCERT_FUZZ=2000 for many.
"""

import os
from typing import Any

import pytest
from serving import Served

CASES = int(os.environ.get("SMOOTHCERT_FUZZ", "12"))


def test_schemathesis_finds_nothing(served: Served) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install '.[dev]'")
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 14
    statuses: set[int] = set()
    for operation in operations:

        @settings(
            max_examples=max(1, CASES // len(operations)), database=None, derandomize=CASES < 100,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate],
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def holds(case: Any) -> None:
            statuses.add(case.call_and_validate(checks=checks).status_code)

        holds()
    assert {200, 400, 404} & statuses


def test_the_description_is_that_of_the_protocol(served: Served) -> None:
    """Paths, and the fields that the protocol requires (Open Inference Protocol, HTTP/REST)."""
    with served.client() as client:
        found = client.get("/openapi.json").json()
    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/{model}", "/v2/models/{model}/ready"):
        assert set(found["paths"][path]) == {"get"}
    assert set(found["paths"]["/v2/models/{model}/infer"]) == {"post"}
    required = {name: set(one.get("required", ())) for name, one in found["components"]["schemas"].items()}
    assert required["InferenceRequest"] == {"inputs"}
    assert required["RequestInput"] == {"name", "shape", "datatype"}
    assert required["InferenceResponse"] >= {"model_name", "outputs"}
    assert required["ResponseOutput"] >= {"name", "shape", "datatype"}
    assert required["ModelMetadata"] >= {"name", "platform", "inputs", "outputs"}
    assert "422" not in str(found["paths"])
