"""What the models of all routes have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A model whose fields are spelled in camel case on the wire, as Kubernetes spells its own. Unknown fields are
    refused.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")
