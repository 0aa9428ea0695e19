"""`python -m samebits.bench`: exactness, latency and error of the block, kept apart, as one report. Needs PyTorch; Hugging Face's columns
need transformers."""
