"""Values for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
"""Everything that JSON can say and PostgreSQL can store."""
