//! A tree of weighted names as a flame graph or icicle in SVG.
