"""DeviceTaintRule, with the same shape in v1alpha3 and v1beta2."""

from __future__ import annotations

from apiserver.api.schema.language import STRING, ListOf, field
from apiserver.api.schema.limits import Limits
from apiserver.api.types.meta import TYPE_META, Condition, ObjectMeta, list_of
from apiserver.api.types.resource.family import Family


class TaintRules(Family):
    """A family with DeviceTaintRule."""

    def _kinds(self) -> None:
        super()._kinds()
        self.DeviceTaintRuleSpec = self._struct("DeviceTaintRuleSpec", lambda: (
            field("deviceSelector", 1, self.DeviceTaintSelector, pointer=True,
                doc="Devices that get the taint; none when not set, all when empty."),
            field("taint", 2, self.DeviceTaint, omit=False, required=True, doc="The taint."),
        ), doc="DeviceTaintRuleSpec pairs a taint with the devices that get it.")
        self.DeviceTaintSelector = self._struct("DeviceTaintSelector", lambda: (
            field("driver", 2, STRING, pointer=True, limits=Limits(required=True, length=63, format="driver-name"),
                doc="Devices of this driver."),
            field("pool", 3, STRING, pointer=True, limits=Limits(required=True, length=253, format="pool-name"),
                doc="Devices of this pool."),
            field("device", 4, STRING, pointer=True, limits=Limits(format="dns-label"), doc="Devices of this name."),
        ), doc="DeviceTaintSelector names devices; all given fields must match.")
        self.DeviceTaintRuleStatus = self._struct("DeviceTaintRuleStatus", lambda: (
            field("conditions", 1, ListOf(Condition, "map", ("type",), merge_key="type"), limits=Limits(items=8),
                doc="Latest conditions of the rule."),
        ), doc="DeviceTaintRuleStatus reports on a rule.")
        self.DeviceTaintRule = self._kind("DeviceTaintRule", lambda: (
            TYPE_META,
            field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
            field("spec", 2, self.DeviceTaintRuleSpec, omit=False, required=True, doc="The taint and the devices."),
            field("status", 3, self.DeviceTaintRuleStatus, omit=False, doc="State of the rule."),
        ), doc="DeviceTaintRule puts a taint on all devices that it selects.")
        self.DeviceTaintRuleList = list_of(self.DeviceTaintRule)
