"""The workflow of the quickstart: ships one order."""

from typing import Any

from workorders import Context, workflow


@workflow(ordering_key="key", retries={"max_retries": 3})
def ship(order: dict[str, Any], context: Context) -> dict[str, Any]:
    """Ship one order; the orders of one customer are shipped one after the other."""
    context.logger.info("shipping %s x %s", order["count"], order["item"])
    return {"shipped": order["order"]}
