"""One function per use case: what the command line, a script and a service all call."""
