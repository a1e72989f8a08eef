"""One range becomes work orders and a moved ledger in one transaction. Needs no Spark."""
