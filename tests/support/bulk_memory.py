"""`python -m support.bulk_memory JOB [FILE]`: work a bulk job through; prints the peak of resident memory in bytes."""

import re
import sys
from pathlib import Path

from workorders.core.bulk import runner
from workorders.core.postgres.connection import connect
from workorders.kafka.client.secrets import JobSecrets


def main(job_id: int, file: Path | None = None) -> None:
    """Work the job through."""
    with connect(JobSecrets.from_environment().database_url) as connection:
        job = runner.run_job(connection, job_id, file=file)
    if job.done != job.total:
        sys.exit(str(job))
    # Not `ru_maxrss`: that of a child begins with what its parent had, which made the work orders.
    (peak_kib,) = re.findall(
        r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE
    )
    print(int(peak_kib) * 1024)


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(Path, sys.argv[2:]))
