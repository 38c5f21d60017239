"""The one exception of the house for input that cannot be accepted."""

from smoothcert.core.text import visible, without_passwords


class InputError(ValueError):
    """What was given cannot work: one sentence that names the argument, what was given and the way out.

    The command line prints the sentence and exits with status 2; nothing has been written then. It is one line that any
    terminal may show, whatever stands in the names of files.
    """

    def __str__(self) -> str:
        return visible(super().__str__(), lines=False)


def sentence(error: InputError | OSError) -> str:
    """What is said of an error: its own sentence, or what the system says of a disk or folder, and of which.

    One line, without what may be a password: an address may have been given where a path belongs.
    """
    if isinstance(error, InputError):
        said = str(error)
    else:
        said = f"{error.strerror or error}" + ("" if error.filename is None else f": {error.filename}")
    return without_passwords(visible(said, lines=False))
