"""Run one job in a child process: start, events, time limit, cause of death.

A job is plain data: the name of a function and its arguments. Native code of a vendor library can only end, hang or
scribble in that child; the parent turns whatever happens into one result or one structured failure.
"""

from winml.modelkit.worker.runner import Job, JobResult, Worker, run_job

__all__ = ["Job", "JobResult", "Worker", "run_job"]
