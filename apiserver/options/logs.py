"""Log records as one line each: text for people, JSON for machines (kube-apiserver's --logging-format)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

FORMATS = ("text", "json")
_TEXT = "%(asctime)s %(levelname).1s %(name)s: %(message)s"


class OneLineFormatter(logging.Formatter):
    """A formatter that escapes line ends, so that a record with a traceback is one line."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\n", "\\n")


class Json(logging.Formatter):
    """An object with ts (seconds), level, logger, msg and, after a failure, error."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "ts": round(record.created, 6),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(form: str, verbosity: int) -> None:
    """Log to stderr in this format: warnings; with -v also info; with -vv everything."""
    handler = logging.StreamHandler()
    handler.setFormatter(Json() if form == "json" else OneLineFormatter(_TEXT))
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    logging.basicConfig(level=level, handlers=[handler], force=True)
