"""Revisions of the tables of the pages."""
