"""The search for the best schedule of a kernel on a GPU and a shape, and what becomes of the winners.

space       the schedules to try: legal, and within the architecture's limits
ranking     which of them are likely: a cost model
outcomes    what became of a candidate, and why
child       a process that may hang or die, and answers requests until then
worker      what it does: compiles, checks and times candidates
serve       the module that it is started with
bench       several of them, and what becomes of a candidate
autotuner   one batch of candidates through TileLang's AutoTuner
search      all batches, within a budget; stops and goes on where it stopped
journal     what has been found so far, on disk
identity    what a result holds for: GPU, versions, source, shape
source      a hash of a program's source
private     a folder that nobody else can write
confirm     winner and default in turn: is it faster beyond noise?
winners     the file of tuned schedules
lookup      which of them a case uses
explore     how each knob moves latency; plot draws it
tune        all of it, for one case
machine     what it needs of this machine
report      what it came to, as text
units       how numbers are printed

Nothing here is imported by kernels; `KernelSpec.schedule_for` imports `lookup`, which needs neither torch nor
TileLang.
"""
