"""The one exception a user is meant to read."""


class UserError(Exception):
    """Something the user can mend: its text is one sentence saying what, where and what to do.

    Entry points print the sentence without a traceback and exit with status 2. Everything else
    that is raised is a defect of this code and keeps its traceback.
    """


class Diverged(UserError):
    """A loss or a parameter is not finite: an error of one run, an answer for a search."""
