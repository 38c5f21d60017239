"""Studies as data: the cells of a paper's table, trained, certified and shown beside its numbers."""

from smoothcert.workflows.studies.study import Study, load_study, study_names

__all__ = ["Study", "load_study", "study_names"]
