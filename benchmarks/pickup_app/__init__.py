"""An app whose one job says when its body began."""
