"""The one exception of the house for input that cannot be accepted."""

from smoothcert.core.text import printable


class InputError(ValueError):
    """What was given cannot work: one sentence that names the argument, what was given and the way out.

    The command line prints the sentence and exits with status 2; nothing has been written then. It is one line that any
    terminal may show, whatever stands in the names of files.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def sentence(error: InputError | OSError) -> str:
    """What is said of an error: its own sentence, or what the system says of a disk or folder, and of which."""
    if isinstance(error, InputError):
        return str(error)
    return printable(f"{error.strerror or error}" + ("" if error.filename is None else f": {error.filename}"))
