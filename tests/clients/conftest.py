"""Configures Django before a test module imports a model."""

import tests.support.libraries  # noqa: F401
