"""verify on tiny shapes: every preset on every layout, whatever the flags that change no bit, and the golden digests."""
import command
from command import CommandTest, run

PRESETS = ["bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1", "gfx942-v1"]
NAMES = ["tp1", "tp2", "tp2+sp", "tp4", "tp2+cp2", "tp2+cp2+sp", "tp8", "tp4+cp2", "tp4+cp2+sp"]

# docs/numerics.md section 8: y, dx, d_gate, d_up, d_down, and d_gate and d_down asked for as f32.
GOLDEN = {
    "bf16-tree-v1": [
        "53d45770cb1262cb74a9deb3457a78cb", "a868e7cb071354bb51d58039cfbd2e61", "f816a6619e2fc5b002a93b9182baef60",
        "645f228b05d393729e0551b2bfcfd913", "5a089ae13c6d80551dbe77f0c94b61bb", "e9565b4440b231b6ed0ac020b365bd79",
        "73cf9544d3e70d864364a26b9e402725"],
    "f32-tree-v1": [
        "795e8395dabb9521a6ef8fe456c1dbbd", "c42e1050ccdf5e6e23d071ce76410420", "b318ec6024b09d3fc35c1cfb7568da5b",
        "89a9086163dfa925b246e6461a8e3b1d", "bc164411606092979384eb24cd161e30", "ad4c0f531d4ff6dd36844fd6a029da14",
        "353747a5e804b71f68e6a3e14c1accc6"],
    "sm90-v1": [
        "795e8395dabb9521a6ef8fe456c1dbbd", "c42e1050ccdf5e6e23d071ce76410420", "d3a43e0dd03501911500eceb02072490",
        "a2e7eee32072c1471290d5fb86e17d36", "ac62e6d1cc009d1408d43a60bf0d8eb9", "ca2b5af6e61c31b85f168e53b91b5420",
        "1b1ee957ae4a247446070c6f712f282d"],
    "hf-sm90-v1": [
        "f61721c93acaa3f6f306c3921deef0a9", "0b59e796b3373de6b5978b3c1ee38d35", "bb7679ccbe9b81d5adba2b8b82e5e21f",
        "0bed64e13c80c39679de081b02a3fe4f", "497e26f37fd269094fdb9c2d6d11460f", "6519ca67c75a2d3a0abba3797436e1a6",
        "d82e533d24d06f7734b56f7675374e1c"],
    "f32-tree-v1,T=block:16": [
        "795e8395dabb9521a6ef8fe456c1dbbd", "c42e1050ccdf5e6e23d071ce76410420", "b318ec6024b09d3fc35c1cfb7568da5b",
        "781f49411cfcbdd141b814abdf3b2dc2", "dab09257beee3ee315cf2d7e78e60c19", "96f73c2ada3d8763bda1b98ed990c107",
        "e8f8e1c305283a578acee290d6044ee0"],
    "sm90-v1,I=max:32,node=bf16,lanes=bf16": [
        "c86e44df4c4a8ca90405ffbadd24f6af", "2495bf8aa7c5b139d1a25084e51e44cf", "d3a43e0dd03501911500eceb02072490",
        "a2e7eee32072c1471290d5fb86e17d36", "ac62e6d1cc009d1408d43a60bf0d8eb9", "d8a821d929dbac669019361d6ebff943",
        "fecef91c9cdc56a9e132c7c04488fd90"],
}


class Verify(CommandTest):
    def rows(self, *flags):
        """The rows that ran: all of them ok, all with the same digests."""
        report = self.report("verify", *flags)
        self.assertTrue(report["ok"])
        self.assertEqual((report["invariance"]["repeat"], report["invariance"]["row_vs_batch"]), (0, 0))
        rows = [row for row in report["layouts"] if row["status"] != "refused"]
        for row in rows:
            self.assertEqual(row["status"], "ok", row)
            self.assertEqual(set(row["mismatch"].values()), {0}, row)
            self.assertEqual(row["digest"], rows[0]["digest"], row["name"])
        return rows

    def test_every_preset_on_every_layout(self):
        for preset in PRESETS:
            for tokens in [7, 1, 0]:
                with self.subTest(preset=preset, tokens=tokens):
                    rows = self.rows("--shape", "64x208", "--tokens", tokens, "--contract", preset)
                    self.assertEqual([row["name"] for row in rows], NAMES)

    def test_golden_digests(self):
        for contract, golden in GOLDEN.items():
            with self.subTest(contract=contract):
                flags = ["--shape", "64x208", "--tokens", 77, "--contract", contract]
                rows = self.rows(*flags)
                self.assertEqual([row["name"] for row in rows], NAMES)
                for row in rows:
                    digest = row["digest"]
                    self.assertEqual([digest[name] for name in ["output", "d_hidden", "d_gate", "d_up", "d_down"]], golden[:5])
                    self.assertEqual(digest["training_output"], golden[0])
                for row in self.rows(*flags, "--gradient-dtype", "f32"):
                    self.assertEqual([row["digest"]["d_gate"], row["digest"]["d_down"]], golden[5:])

    def test_flags_that_change_no_bit(self):
        flags = ["--shape", "64x208", "--tokens", 77, "--layouts", "tp2+cp2,tp3+sp,cp3"]
        plain = self.rows(*flags)[0]["digest"]
        isas = self.report("info")["engines"]["cpu"]["isa"]
        for other in [["--down", "rows"], ["--down", "columns"], ["--weights", "both"], ["--split", "zigzag"],
                      ["--gradients", "gather"], ["--gradients", "exchange", "--contract", "bf16-tree-v1,T=block:1"],
                      ["--exchange", "one-shot"], ["--exchange", "slice-owner"], ["--overlap", "off"], ["--threads", "1"], ["--threads", "5"],
                      *(["--isa", isa] for isa in isas)]:
            with self.subTest(flags=other):
                digest = self.rows(*flags, *other)[0]["digest"]
                if "--contract" not in other:
                    self.assertEqual(digest, plain)

    def test_layouts_that_are_not_allowed_are_rows_under_all(self):
        # One leaf of I: columns cut nothing but TP1; context parallelism alone is not in the list.
        report = self.report("verify", "--shape", "64x256", "--tokens", 7, "--contract", "sm90-v1,I=halve:1", "--down", "columns")
        status = {row["name"]: row["status"] for row in report["layouts"]}
        self.assertEqual({name for name in status if status[name] == "refused"}, {"tp4", "tp8", "tp4+cp2", "tp4+cp2+sp"})
        for row in report["layouts"]:
            if row["status"] == "refused":
                self.assertTrue(row["reason"])
                self.assertIsNone(row["mismatch"])

    def test_refusals_at_the_call_are_rows_too(self):
        # Seven tokens are one leaf: no split of them lets covers of the gradients be exchanged.
        flags = ["verify", "--shape", "64x208", "--tokens", 7, "--gradients", "exchange"]
        report = self.report(*flags)
        status = {row["name"]: row["status"] for row in report["layouts"]}
        self.assertEqual({name for name in status if status[name] == "refused"}, {name for name in NAMES if "cp" in name})
        self.assert_refused([*flags, "--layouts", "cp2"], ["exchanging", "cp2"])

    def test_a_control_without_power_is_said_to_prove_nothing(self):
        done = run("verify", "--shape", "16x16", "--tokens", 1, "--contract", "sm90-v1", "--layouts", "tp1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("proves nothing", done.stdout)


if __name__ == "__main__":
    command.main()
