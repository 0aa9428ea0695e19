"""The rows of bench/tp_ratio.py: one measurement beside the others. Standard library alone."""

HEADER = ["contract", "layout", "direction", "tokens", "serial", "overlapped", "HF TP1", "PyTorch", "/ HF", "/ PyTorch", "exposed", "moves"]
SETTINGS = {"off": "serial", "auto": "overlapped"}  # of --overlap


def key_of(row):
    return row["layout"], row["direction"], row["tokens"]


def ratio(ours, theirs):
    return None if ours is None or theirs is None else ours / theirs


def median_of(times):
    return None if times is None else times["median"]


def join_rows(reports, torch_rows, contracts):
    """`reports`: (contract, value of --overlap) to the report of samebits. Rows in their order, contract by contract."""
    theirs = {key_of(row): row["us"] for row in torch_rows}
    rows = []
    for contract in contracts:
        found = {}  # by key: the row of each setting
        for (of_contract, overlap), report in reports.items():
            if of_contract != contract:
                continue
            for row in report["rows"]:
                found.setdefault(key_of(row), {})[SETTINGS[overlap]] = row
        for key, by_setting in found.items():
            layout, direction, tokens = key
            row = {"contract": contract, "layout": layout, "direction": direction, "tokens": tokens,
                   "hf_tp1_us": theirs.get(("tp1", direction, tokens)), "pytorch_us": theirs.get(key)}
            for setting in SETTINGS.values():
                ours = by_setting.get(setting)
                row[f"{setting}_us"] = ours and ours["ours_us"]
                row[f"{setting}_exposed_us"] = ours and ours["exposed_us"]
                for name in ["hf_tp1", "pytorch"]:
                    row[f"{setting}_of_{name}"] = ratio(median_of(row[f"{setting}_us"]), median_of(row[f"{name}_us"]))
            row["moved"] = next(iter(by_setting.values()))["moved"]
            rows.append(row)
    return rows


def size_text(size):
    for unit, scale in [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)]:
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"


def cells_of(row):
    """Ratios and what is exposed: with overlap, which is samebits' default, where it was timed."""
    def time(times):
        return "-" if times is None else f"{times['median']:.1f}"

    setting = "overlapped" if row["overlapped_us"] else "serial"
    ratios = [row[f"{setting}_of_{name}"] for name in ["hf_tp1", "pytorch"]]
    moved = row["moved"]
    return [row["contract"], row["layout"], row["direction"], row["tokens"], time(row["serial_us"]), time(row["overlapped_us"]),
            time(row["hf_tp1_us"]), time(row["pytorch_us"]), *["-" if one is None else f"{one:.2f}" for one in ratios],
            time(row[f"{setting}_exposed_us"]), "-" if moved is None else size_text(max(moved["sent"], moved["received"]))]
