"""The one exception of the house for input that cannot be accepted."""


class InputError(ValueError):
    """What was given cannot work: one sentence that names the argument, what was given and the way out.

    The command line prints the sentence and exits with status 2; nothing has been written then.
    """
