"""What a run found, for people and for programs. Imports neither torch nor TileLang.

model      what results.json holds; pure data
codec      between it and JSON, with every mistake named by its place
journal    what a run writes down as it goes, so that a report can be made however it ends
assembly   a report out of a journal
merging    one report of several runs
overview   states, counts and findings, as both pages show them
summary    summary.md, for the summary of a CI job
plots      SVG, by matplotlib; roofs has what rows lie under
page       index.html
sparks     small plots for tables, as paths of SVG
rendering  pages, by Jinja2
folder     the files, and what may not be written over
watch      makes the report of a run whose process died
"""
