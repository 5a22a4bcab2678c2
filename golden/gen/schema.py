"""The part of JSON Schema that golden/vectors/schema.json uses, so that no file is written that does not keep it."""

import re

KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
KEYWORDS = {
    "$defs",
    "$id",
    "$ref",
    "$schema",
    "additionalProperties",
    "const",
    "description",
    "enum",
    "items",
    "minimum",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
}


def check(value, schema):
    """Fails with the first place at which a value does not keep a schema."""
    fault = fault_of(value, schema, schema, "$")
    assert fault is None, fault


def fault_of(value, schema, root, place):
    assert set(schema) <= KEYWORDS, f"keywords {set(schema) - KEYWORDS}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return fault_of(value, root["$defs"][name], root, place)
    if "oneOf" in schema:
        faults = [fault_of(value, each, root, place) for each in schema["oneOf"]]
        if faults.count(None) != 1:
            return f"{place}: {faults.count(None)} of {len(faults)} alternatives fit: {faults}"
    if "const" in schema and value != schema["const"]:
        return f"{place}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{place}: {value!r} is none of {schema['enum']}"
    if "type" in schema:
        is_kind = isinstance(value, KINDS[schema["type"]])
        if not is_kind or (schema["type"] == "integer" and isinstance(value, bool)):
            return f"{place}: {value!r} is no {schema['type']}"
    if "minimum" in schema and value < schema["minimum"]:
        return f"{place}: {value} is below {schema['minimum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{place}: {value!r} does not match {schema['pattern']}"
    return members(value, schema, root, place)


def members(value, schema, root, place):
    for name in schema.get("required", []):
        if name not in value:
            return f"{place}: {name} is missing"
    if isinstance(value, list) and "items" in schema:
        parts = [(schema["items"], item, f"{place}[{index}]") for index, item in enumerate(value)]
    elif isinstance(value, dict):
        known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
        extra = [name for name in value if name not in known]
        if other is False and extra:
            return f"{place}: there is no member {extra[0]}"
        rest = {} if other is False else other
        parts = [(known.get(name, rest), item, f"{place}.{name}") for name, item in value.items()]
    else:
        return None
    return next((fault for part, item, at in parts if (fault := fault_of(item, part, root, at))), None)
