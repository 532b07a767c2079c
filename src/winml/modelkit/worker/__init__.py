"""Run one job in a child process: start, events, time limit, cause of death.

A job is plain data: the name of a function and its arguments. Native code of a vendor library can only end, hang or
scribble in that child; the parent turns whatever happens into one result or one structured failure.

The parent's side is ``worker.runner`` (``Job``, ``Worker``, ``run_job``), the child's ``worker.child``. They are not
imported here: the child would pay for the parent's imports.
"""
