//! Documents: exact values, their total order, binary form, views, sort keys and JSON.
