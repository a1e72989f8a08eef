"""Whether a written work order may run: idempotency, sequences and their gaps, limits, rejections."""
