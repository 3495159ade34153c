"""How long kernels take on a GPU, and whether that is longer than before.

chips        the GPU that stands for an architecture where none is at hand
monitor      what NVML says of the GPU: what it is, its clock, why that is lowered
timing       samples of device time that two runs agree on; timing_cuda has the device for it
contenders   a kernel and its vendors, ready to be launched on the same tensors; vendors checks the latter
roofline     how fast a kernel could be at best
bench        all of these together, for one row
gate         verdicts: pure arithmetic; noise is what runs of one kernel differ by
baselines    stored times: files, identity, completeness
promotion    several runs become the next baseline; calibration makes them; comparison sets two side by side
alarms       how often the gate alarms where nothing changed
"""
