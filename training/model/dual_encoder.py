"""The dual encoder: two towers with projections into one embedding space (001, section 5.2)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from swiftlet.errors import InvalidArgumentError
from training.model.towers import NormalisedLinear, Tower

Features = Mapping[str, torch.Tensor]
Part = Literal["query_encoder", "document_encoder", "projection"]
Projection = Literal["shared", "separate", "none"]
Start = Literal["random", "orthogonal"]

PARTS: tuple[Part, ...] = ("query_encoder", "document_encoder", "projection")


class DualEncoder(nn.Module):
    """The encoders ζ and η: language model, projection, L2 norm (eqs 10 and 11).

    The projection `shared` is the projection of the paper: both towers use the same W and b. If the
    towers differ in width, a linear adapter first maps the output of the query tower to the width
    of the document tower; it is a part of the query encoder. With `separate` each tower has its own
    projection, and with `none` there is no projection.

    The towers may share parameters, or be one. Parameters that are frozen at first stay frozen.
    """

    def __init__(
        self,
        query_tower: Tower,
        document_tower: Tower,
        *,
        projection: Projection = "shared",
        dim: int | None = None,
        start: Start = "random",
        layer_norm: bool = False,
        maps_queries: bool = False,
    ) -> None:
        """Join two towers, or one as both.

        :param dim: Size a of the embeddings; by default the width of the document tower, which is
            the only choice without a projection.
        :param start: The initial projections: "random" as in torch, or "orthogonal" without bias. A
            square orthogonal projection keeps all angles, and so the similarities that the language
            models have learnt.
        :param layer_norm: Normalise the projected outputs over their dimensions (002, section 4.1).
        :param maps_queries: Let the `query_map` be for queries alone, for an alignment in closed
            form: an adapter, which begins as the identity if it is square, or the own projection.
        :raises InvalidArgumentError: When there is no projection although the widths differ, or
            `dim` differs from the width; or a query has several vectors, or `dim` is above the
            width of the document tower.
        """
        super().__init__()
        if query_tower.vectors > 1:
            one = query_tower is document_tower
            raise InvalidArgumentError(
                f"the query encoder gives {query_tower.vectors} vectors, but a query has one: set "
                "query_encoder.pooling to 'cls'" + (", and share less than 'all'" if one else "")
            )
        towers = nn.ModuleList([query_tower, document_tower])
        self._untrained = {each for each in towers.parameters() if not each.requires_grad}
        widths = query_tower.width, document_tower.width
        if projection == "none" and widths[0] != widths[1] and not maps_queries:
            raise InvalidArgumentError(
                f"the query tower is {widths[0]} wide and the document tower {widths[1]}: without "
                "a projection they must be equal; choose projection shared or separate, or set "
                "alignment.start to 'ridge'"
            )
        self.dim = dim or widths[1]
        if projection == "none" and self.dim != widths[1]:
            raise InvalidArgumentError(
                f"dual_encoder.dim is {self.dim}, but without a projection it is the width of the "
                f"encoders, {widths[1]}: set dual_encoder.projection to 'shared'"
            )
        if self.dim > widths[1]:
            raise InvalidArgumentError(
                f"dual_encoder.dim is {self.dim}, but the document encoder is {widths[1]} wide: "
                "more dimensions cannot say more, so lower it"
            )
        if projection == "none" and layer_norm:
            raise InvalidArgumentError(
                "dual_encoder.layer_norm belongs to a projection: choose shared or separate"
            )
        linear = NormalisedLinear if layer_norm else nn.Linear
        self.document_width = self.dim * document_tower.vectors
        self.query_tower, self.document_tower = query_tower, document_tower
        self.document_projection = None if projection == "none" else linear(widths[1], self.dim)
        self.adapter = None
        self.query_projection = self.document_projection
        if projection == "separate":
            self.query_projection = linear(widths[0], self.dim)
        elif maps_queries or widths[0] != widths[1]:
            self.adapter = nn.Linear(*widths)
        if start == "orthogonal":
            for each in self._linear_maps():
                nn.init.orthogonal_(each.weight)
                nn.init.zeros_(each.bias)
        if self.adapter is not None and widths[0] == widths[1]:
            nn.init.eye_(self.adapter.weight)
            nn.init.zeros_(self.adapter.bias)

    @property
    def query_map(self) -> nn.Linear | None:
        """The first linear map of the query language model's outputs."""
        return self.adapter or self.query_projection

    def project_queries(self, outputs: torch.Tensor) -> torch.Tensor:
        """Project and normalise the query language model's outputs (n, width)."""
        outputs = outputs if self.adapter is None else self.adapter(outputs)
        return _unit(outputs, self.query_projection)

    def project_documents(self, outputs: torch.Tensor) -> torch.Tensor:
        """Project and normalise the outputs (n, vectors · width) of the document language model."""
        vectors = outputs.reshape(-1, self.document_tower.width)
        return self.project_one(vectors).reshape(-1, self.document_width)

    def project_one(self, outputs: torch.Tensor) -> torch.Tensor:
        """Project and normalise outputs (n, width) of the document language model, one a text."""
        return _unit(outputs, self.document_projection)

    def parts(self) -> Iterator[tuple[Part, list[nn.Parameter]]]:
        """The parameters that train or freeze together. Shared ones are the document encoder's."""
        documents = [p for p in self.document_tower.parameters() if p not in self._untrained]
        others = self._untrained.union(documents)
        queries = nn.ModuleList([self.query_tower, *filter(None, [self.adapter])]).parameters()
        projections = nn.ModuleList(each for each in self._linear_maps() if each != self.adapter)
        yield "query_encoder", [p for p in queries if p not in others]
        yield "document_encoder", documents
        yield "projection", list(projections.parameters())

    def parameter_groups(
        self, learning_rates: Mapping[Part, float]
    ) -> list[tuple[list[nn.Parameter], float]]:
        """The parameters of each part in `learning_rates`, with its rate."""
        return [(p, learning_rates[part]) for part, p in self.parts() if part in learning_rates]

    def train_only(self, parts: frozenset[Part]) -> None:
        """Train `parts` and freeze the other parts. Dropout is off in frozen towers."""
        for name, parameters in self.parts():
            for parameter in parameters:
                parameter.requires_grad_(name in parts)
                if name not in parts:
                    parameter.grad = None
        self.query_tower.train("query_encoder" in parts)
        self.document_tower.train("document_encoder" in parts)

    def save(self, directory: Path) -> None:
        """Write `query_encoder/` and `document_encoder/`, Sentence Transformers directories.

        If they are one, there is only `document_encoder/`.
        """
        if self.query_tower is not self.document_tower:
            self.query_tower.save(directory / "query_encoder", self._whole_query_projection())
        self.document_tower.save(directory / "document_encoder", self.document_projection)

    def _linear_maps(self) -> list[nn.Linear]:
        maps = (self.adapter, self.query_projection, self.document_projection)
        return [linear for linear in dict.fromkeys(maps) if linear is not None]

    def _whole_query_projection(self) -> nn.Linear | None:
        if self.adapter is None or self.query_projection is None:
            return self.query_projection or self.adapter
        # The product of two linear maps is a linear map.
        outer = self.query_projection
        whole = type(outer)(self.adapter.in_features, self.dim)
        with torch.no_grad():
            if isinstance(whole, NormalisedLinear) and isinstance(outer, NormalisedLinear):
                whole.norm = outer.norm
            whole.weight.copy_(outer.weight @ self.adapter.weight)
            whole.bias.copy_(outer.weight @ self.adapter.bias + outer.bias)
        return whole


def _unit(outputs: torch.Tensor, projection: nn.Linear | None) -> torch.Tensor:
    projected = outputs if projection is None else projection(outputs)
    return functional.normalize(projected.float(), dim=-1)
