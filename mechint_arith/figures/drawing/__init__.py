"""Flat drawings of shapes in centimetres, and what writes them as SVG, TikZ, PDF or PNG."""
