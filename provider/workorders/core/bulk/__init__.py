"""Reruns, cancels, and exports of many work orders as jobs that can be resumed."""
