"""Errors, and one line on what is missing for those that a user can remedy."""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

MINIMUM_SERVER = 150000
PACKAGE = "rag-postgresql"


class RagError(Exception):
    """What the client cannot do. The message ends with the remedy."""


class ExtensionMissing(RagError):
    """The database does not have the extension, or an older version of it."""


class ServerTooOld(RagError):
    """The server is older than PostgreSQL 13."""


class NotAllowed(RagError):
    """The role lacks a right."""


class ModelMissing(RagError):
    """No model is there that could answer or embed."""


class NoConnection(RagError):
    """The server cannot be reached, or refuses the connection."""


def missing_package(package: str, extra: str) -> ImportError:
    """Returns the error for a framework that is not installed."""
    return ImportError(f"{package} is missing. Install it: pip install '{PACKAGE}[{extra}]'")


def explained(error: psycopg.Error, role: str = "") -> Exception:
    """Returns the error to raise for one of the server: with its remedy if there is one, or else
    itself. Its SQLSTATE, DETAIL and HINT are in `__cause__.diag`."""
    diag = error.diag
    message = diag.message_primary or str(error).strip()
    hint = f" {diag.message_hint}" if diag.message_hint else ""
    if isinstance(error, pg.InsufficientPrivilege):
        if not hint:
            hint = f" Have an administrator run: GRANT rag_reader TO {role or 'your role'}."
        return NotAllowed(f"{message}.{hint}")
    if isinstance(error, pg.UndefinedFunction) and "rag_" in message:
        return ExtensionMissing(
            f"{message}. The extension rag is too old for this client: install a newer one, and "
            "run ALTER EXTENSION rag UPDATE."
        )
    if isinstance(error, pg.InvalidParameterValue) and "chat_model" in f"{message}{hint}":
        return ModelMissing(f"{message}.{hint}")
    return error
