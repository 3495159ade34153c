"""Every night, unattended: stages on one GPU, and a verdict that people can act on.

guard      may times and verdicts of this GPU be trusted at all?
stages     one stage: its commands, its time limit, how it ended
asking     what processes of their own are asked, before a stage begins
keyword    whether pytest takes what is given with -k
known      what the kernels' files name, read by a process of its own
plan       which stages there are, and what each runs
verdict    the night's exit code: the worst that happened, and where
results    what the stages left behind, read back
night      the record of a night: what a line of the history holds
history    the nights before, in an append-only folder
drift      what slowly becomes slower, found over many nights
triage     each failure once: since when, what changed, how to repeat it
newest     which TileLang is the newest that can be had
upgrade    the suite under it, side by side with the pinned one
words      summary.md and the table at the end
trend      what the nights on record have in common and what not
trendpage  the text of trend.html
trendfile  trend.html, beside a report if there is one
job        all of it, in order

Pages and reports are those of `tilecheck.report`, which knows nothing of nights.
"""
