"""Whatever is wrong, the command says what, where and what to do, and ends with the right code."""

import os
import struct
import unittest

import support


class TheData(support.CommandTest):
    def test_that_is_missing_empty_too_short_or_a_folder_is_refused(self):
        for name, content, parts in [("none.txt", None, ["cannot find the text none.txt"]),
                                     ("empty.txt", "", ["empty.txt is empty"]),
                                     ("short.txt", "abc",
                                      ["short.txt has 3 bytes", "length 16 needs 17", "--length"]),
                                     (".", None, [". is a folder", "name the text files in it"])]:
            with self.subTest(name):
                if content is not None:
                    self.write(name, content)
                self.refused(self.train_words(data=name), *parts, "--data")

    def test_that_misses_one_of_several_files_is_refused(self):
        self.refused(["train", "--data", self.text, "none.txt"], "cannot find the text none.txt")


class AnOption(support.CommandTest):
    def test_that_is_unknown_is_named_with_what_comes_near(self):
        self.refused([*self.train_words(), "--stagse", 3], "unknown option --stagse",
                     "did you mean 'stages'?", "`sluice train --help`")
        self.refused([*self.train_words(), "--frobnicate=3"], "unknown option --frobnicate")
        self.refused(["generate", "--chekpoint", "run"], "unknown option --chekpoint",
                     "did you mean 'checkpoint'?")
        self.refused([*self.train_words()[:1], "words"], "'words' belongs to no option")

    def test_with_a_bad_value_is_refused_with_the_values_it_takes(self):
        whole = "no whole number from 1 to"
        for option, value, part in [
                ("lr", "abc", "'abc' is no number from 0 on"), ("lr", "-1", "no number from 0"),
                ("lr", "nan", "no number from 0"), ("lr", "inf", "no number from 0"),
                ("steps", "-5", whole), ("steps", "0", whole), ("steps", "1.5", whole),
                ("steps", "1e3", whole), ("layers", "0", whole), ("stages", "two", whole),
                ("layers", "99999999999999999999", whole),
                ("credits", "0", "a whole number from 1, own or auto"),
                ("warm_up", "-1", "no whole number from 0 to"), ("seed", "-1", "from 0 to 18446"),
                ("dropout", "1", "no number from 0 to below 1"), ("deadline", "0", "above 0"),
                ("model", "rnn", "there is no 'rnn'; there are gpt, mlp"),
                ("optimizer", "adam", "there are adamw, sgd"),
                ("memory", "much", "'much' is no size"), ("memory", "0", "KiB, MiB or GiB"),
                ("memory", "-5", "KiB, MiB or GiB"), ("memory", "12XB", "KiB, MiB or GiB"),
                ("cut", "1,x", "'x' is no whole number"), ("device", "abacus", "abacus")]:
            with self.subTest(option, value=value):
                self.refused(self.train_words(**{option: value}),
                             "--" + option.replace("_", "-"), part)

    def test_that_is_given_twice_or_without_its_value_is_refused(self):
        self.refused([*self.train_words(), "--steps", 4], "--steps is given more than once")
        self.refused([*self.train_words(), "--report"], "--report needs a value")

    def test_that_contradicts_another_is_refused(self):
        for options, parts in [(dict(heads=3), ["heads", "width"]),
                               (dict(stages=5), ["4 layers", "5 parts", "fewer --stages"]),
                               (dict(stages=2, cut="1,2"), ["3 layers", "4 layers"]),
                               (dict(stages=2, cut="4"), ["1 part", "2 parts"]),
                               (dict(stages=2, cut="0,4"), ["no part may be empty"]),
                               (dict(stages=2, schedule="interleaved", chunks=7), ["14 parts"]),
                               (dict(schedule="file:none.csv"), ["none.csv"])]:
            with self.subTest(**options):
                self.refused(self.train_words(**options), *parts)

    def test_of_an_unknown_schedule_is_answered_with_all_names(self):
        self.refused(self.train_words(schedule="1f2b"), "--schedule", "'1f2b'", "gpipe, 1f1b",
                     "zb-v", "dualpipe", "file:PATH")

    def test_of_too_little_memory_fails_the_run_and_names_the_stage(self):
        for memory in ["10KiB", "120KiB"]:
            with self.subTest(memory):
                self.refused(self.train_words(memory=memory, stages=2), "rank ",
                             "exceed the limit", "give more --memory", code=1)
        self.train(memory="64MiB", stages=2)

    def test_that_is_no_subcommand_is_answered_with_all_of_them(self):
        self.refused(["trian"], "there is no subcommand 'trian', did you mean 'train'?",
                     "there are train, worker, status, launch, generate, plan")
        self.refused([], "a subcommand is missing", "train")


class AConfigFile(support.CommandTest):
    def refused_with(self, content, *parts):
        self.write("a.toml", content)
        self.refused([*self.train_words(), "--config", "a.toml"], *parts)

    def test_that_is_missing_or_a_folder_is_refused(self):
        for name in ["none.toml", "."]:
            self.refused([*self.train_words(), "--config", name], name)

    def test_with_an_unknown_key_is_refused_with_its_line(self):
        self.refused_with("# mine\nlayers = 1\nlayerz = 3\n", "a.toml:3: unknown key 'layerz'",
                          "did you mean 'layers'?")
        self.refused_with("[train]\nhelp = true\n", "a.toml:2: unknown key 'help'")
        self.refused_with("[tarin]\nlayers = 1\n", "a.toml:1", "no section [tarin]")

    def test_that_is_not_toml_is_refused_with_the_line_and_the_reason(self):
        for content, *parts in [("lr = \n", "a.toml:1:", "expected value"),
                                ("lr 0.1\n", "a.toml:1:", "expected '='"),
                                ("\n[train\nlr = 1\n", "a.toml:2:", "expected ']'"),
                                ("schedule = 1f1b\n", "a.toml:1:", "texts stand in quotes"),
                                ('schedule = "1f1b\n', "a.toml:1:", "parsing string"),
                                ("cut = [2, 2\nlr = 1\n", "a.toml:2:", "closing ']'"),
                                ("lr = 1 2\n", "a.toml:1:", "saw '2'"),
                                ("lr = 1\nlr = 2\n", "a.toml:2:", "cannot redefine", "'lr'"),
                                ("lr = 1979-05-27\n", "a.toml:1:", "a value is a text")]:
            with self.subTest(content):
                self.refused_with(content, *parts)

    def test_with_a_bad_value_is_refused_with_its_line(self):
        self.refused_with('\nlr = "fast"\n', "a.toml:2: lr: 'fast' is no number from 0 on")
        self.refused_with("recompute = 3\n", "a.toml:1: recompute: write true or false")
        self.refused_with("lr = [1, 2]\n", "a.toml:1: lr: takes one value")


class ACheckpoint(support.CommandTest):
    def setUp(self):
        super().setUp()
        self.train(checkpoint="run")
        (self.file,) = self.checkpoints()
        self.good = self.file.read_bytes()
        (self.header_bytes,) = struct.unpack("<Q", self.good[:8])

    def resume_refused(self, *parts, where="run", **options):
        self.refused(self.train_words(steps=5, resume=where, **options), *parts)

    def test_that_is_not_there_is_refused_with_where_to_look(self):
        os.mkdir(self.folder / "empty")
        for where in ["empty", "nowhere"]:
            self.resume_refused(f"no checkpoint in {where}", "--checkpoint", where=where)
            self.refused(["generate", "--checkpoint", where], f"no checkpoint in {where}")

    def test_with_a_flipped_bit_anywhere_is_refused(self):
        places = [0, 7, 8, 9, 8 + self.header_bytes // 2, 8 + self.header_bytes,
                  len(self.good) // 2, len(self.good) - 1]
        step = self.good.index(b'"step":"3"') + 8
        for place in [*places, step, self.good.index(b'\\"lr\\":') + 9]:
            with self.subTest(place=place):
                damaged = bytearray(self.good)
                damaged[place] ^= 1
                self.file.write_bytes(damaged)
                self.resume_refused(self.file.name, "give another checkpoint")

    def test_that_is_cut_short_or_too_long_is_refused(self):
        for size in [0, 5, 8, 100, 8 + self.header_bytes, len(self.good) - 1]:
            with self.subTest(size=size):
                self.file.write_bytes(self.good[:size])
                self.resume_refused(self.file.name)
        self.file.write_bytes(self.good + b"\0")
        self.resume_refused(self.file.name)

    def test_that_is_damaged_is_passed_over_for_the_one_before_it(self):
        self.train(steps=4, checkpoint="run", resume="run")
        newest = self.checkpoints()[-1]
        newest.write_bytes(newest.read_bytes()[:-1])
        done = self.train(steps=5, checkpoint="run", resume="run")
        self.assertIn("passing over a damaged checkpoint", done.stderr)
        self.assertIn("continuing after step 3", done.stderr)

    def test_of_somebody_else_is_refused(self):
        header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        foreign = self.write("foreign.safetensors",
                             struct.pack("<Q", len(header)) + header + b"\0\0\0\0")
        self.resume_refused("foreign.safetensors is not a checkpoint of Sluice", where=foreign)
        self.resume_refused("text.txt: not a safetensors file", where=self.text)

    def test_of_another_network_is_refused_with_both_values(self):
        for key, value in [("layers", 2), ("width", 32), ("model", "mlp"), ("optimizer", "sgd")]:
            with self.subTest(key):
                self.resume_refused(f"the checkpoint has {key} = ", f"not {value}",
                                    f"leave --{key} out", **{key: value})

    def test_that_is_at_the_last_step_is_refused(self):
        self.refused(self.train_words(steps=3, resume="run"), "at step 3 of 3", "--steps")

    def test_of_another_run_is_never_written_over(self):
        self.refused(self.train_words(checkpoint="run"), "run holds checkpoints of another run",
                     "--resume run")
        self.assertEqual(self.file.read_bytes(), self.good)


class APlace(support.CommandTest):
    def test_that_cannot_be_written_is_refused_before_the_first_step(self):
        self.write("file", "")
        for option, value in [("checkpoint", "file"), ("checkpoint", "/proc/nothing"),
                              ("json", "nowhere/x.json"), ("json", self.folder),
                              ("report", "nowhere/x.csv"),
                              ("trace", "nowhere/x.json")]:
            with self.subTest(option, value=value):
                done = self.refused(self.train_words(**{option: value}), "--" + option, value)
                self.assertNotIn("step 1/", done.stderr)

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere: NOT TESTED as root")
    def test_without_the_right_to_write_is_refused(self):
        os.mkdir(self.folder / "locked", 0o500)
        self.refused(self.train_words(checkpoint="locked"), "cannot write", "locked")

    def test_that_takes_no_results_is_no_success(self):
        with open("/dev/full", "w") as full:
            done = support.subprocess.run([support.binary, *self.train_words(json="-")],
                                          cwd=self.folder, stdout=full, text=True,
                                          stderr=support.subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write the results", done.stderr)


if __name__ == "__main__":
    support.main()
