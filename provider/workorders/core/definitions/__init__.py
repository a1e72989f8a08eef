"""Triggers and workflows as code: models, YAML files, decorator, JSON Schema. Touches no database."""
