"""The one exception of the house for input that cannot be accepted."""

from smoothcert.core.text import printable


class InputError(ValueError):
    """What was given cannot work: one sentence that names the argument, what was given and the way out.

    The command line prints the sentence and exits with status 2; nothing has been written then.
    """


def sentence(error: InputError | OSError) -> str:
    """What is said of an error, in one line that a terminal may show.

    Its own sentence, or what the system says of a disk or folder, and of which.
    """
    if isinstance(error, InputError):
        return printable(str(error))
    return printable(f"{error.strerror or error}" + ("" if error.filename is None else f": {error.filename}"))
