# SPDX-License-Identifier: Apache-2.0
"""greeting.py ADDRESS PORT JOB: joins in the clear and prints the kind of the first frame that it
receives."""
import sys

import attacks
import frames


def main():
    door = attacks.Door(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    answer = door.answer_to(frames.preamble(attacks.VERSION), frames.introduction(door.job, 0),
                            frames.hello(door.job), ends=True)
    print(answer[len(frames.preamble(0)) + len("r") + 4])  # after the reply and a length


if __name__ == "__main__":
    main()
