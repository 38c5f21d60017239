"""One function per use case: what the command line, a script and a service all call.

Each takes objects or what stands for them (a path, a name, arrays), does the whole of its work, rules included, and
returns a typed result. Progress goes to an `Observer`, which is silent unless somebody wants to hear of it.
"""
