"""Reruns and cancels of many work orders as jobs that can be resumed."""
