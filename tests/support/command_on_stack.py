"""Runs `workorders` as a person does who types it on a machine of the stack."""

import subprocess

from local_stack.stack import LocalStack


def typed(stack: LocalStack, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `workorders` with these arguments to its end, whatever that is."""
    environment = stack.environment()
    return subprocess.run(
        ["workorders", *arguments], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
