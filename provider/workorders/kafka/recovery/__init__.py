"""An operator's decision about a stalled partition: which kinds apply, and applying one."""
