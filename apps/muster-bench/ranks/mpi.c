/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the same cells as bench-ranks, over MPI, in place. Compiled with each installed MPI. The
 * values are those of cell.cpp: small integers times powers of two, so that sums are exact. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

struct type {
  const char* name;
  size_t width;
  int first_exponent; /* 0 for integers */
  MPI_Datatype mpi;
};

static void put(const struct type* type, double small, int sums, char* to) {
  if (type->first_exponent) {
    const double value = ldexp(small, type->first_exponent) * pow(ranks, sums);
    const float narrow = (float)value;
    memcpy(to, type->width == 8 ? (const void*)&value : (const void*)&narrow, type->width);
    return;
  }
  unsigned long long whole = (unsigned long long)small;
  for (int i = 0; i < sums; ++i) {
    whole *= (unsigned long long)ranks;
  }
  memcpy(to, &whole, type->width);
}

/* Four elements: the input of a rank (sums 0), or the result on all ranks after this many sums. */
static void pattern(const struct type* type, int sums, int who, char* four) {
  for (int i = 0; i < 4; ++i) {
    double small = 1 + (i + who) % 4;
    if (sums > 0) {
      small = 0;
      for (int r = 0; r < ranks; ++r) {
        small += 1 + (i + r) % 4;
      }
    }
    put(type, small, sums > 0 ? sums - 1 : 0, four + (size_t)i * type->width);
  }
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static double median(double* times, int n) {
  qsort(times, (size_t)n, sizeof(*times), compare);
  return n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
}

static void fill(const struct type* type, const char* four, char* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += type->width) {
    memcpy(data + at, four + at % (4 * type->width), type->width);
  }
}

/* Aborts the job if the result is wrong. */
static void expect(const struct type* type, const char* four, const char* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += type->width) {
    if (memcmp(data + at, four + at % (4 * type->width), type->width) != 0) {
      fprintf(stderr, "bench-mpi: wrong result at byte %zu of %zu\n", at, bytes);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

/* The time of one batch on this rank in seconds. */
static double batch(const struct type* type, char* data, size_t bytes, int sums) {
  char four[32];
  pattern(type, 0, rank, four);
  fill(type, four, data, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < sums; ++i) {
    MPI_Allreduce(
        MPI_IN_PLACE, data, (int)(bytes / type->width), type->mpi, MPI_SUM, MPI_COMM_WORLD);
  }
  const double spent = MPI_Wtime() - begin;
  pattern(type, sums, rank, four);
  expect(type, four, data, bytes);
  return spent;
}

static void perform(const char* operation, MPI_Datatype type, char* in, char* out, int count) {
  const int part = count / ranks;
  if (strcmp(operation, "broadcast") == 0) {
    MPI_Bcast(out, count, type, 0, MPI_COMM_WORLD);
  } else if (strcmp(operation, "all_gather") == 0) {
    MPI_Allgather(in, part, type, out, part, type, MPI_COMM_WORLD);
  } else if (strcmp(operation, "reduce_scatter") == 0) {
    MPI_Reduce_scatter_block(in, out, part, type, MPI_SUM, MPI_COMM_WORLD);
  } else {
    MPI_Alltoall(in, part, type, out, part, type, MPI_COMM_WORLD);
  }
}

/* Like batch, but for other operations, from one buffer to another, as in operations.cpp. */
static double batch_of_others(
    const char* operation, const struct type* type, char* in, size_t bytes, int times) {
  char* const out = in + bytes;
  const int to_each = strcmp(operation, "all_to_all") == 0;
  const int scatter = strcmp(operation, "reduce_scatter") == 0;
  const size_t block = bytes / (size_t)ranks;
  char four[32];
  for (int i = 0; i < ranks; ++i) {
    pattern(type, 0, rank + (to_each ? 2 * i : 0), four);
    fill(type, four, in + (size_t)i * block, block);
    pattern(type, 0, rank, four);
    fill(type, four, out + (size_t)i * block, block);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < times; ++i) {
    perform(operation, type->mpi, in, out, (int)(bytes / type->width));
  }
  const double spent = MPI_Wtime() - begin;
  for (int i = 0; i < (scatter ? 1 : ranks); ++i) {
    const int giver = strcmp(operation, "broadcast") == 0 ? 0 : i + (to_each ? 2 * rank : 0);
    pattern(type, scatter ? 1 : 0, giver, four);
    expect(type, four, out + (size_t)i * block, block);
  }
  return spent;
}

static int run(const char* word) {
  const struct type types[] = {{"f32", 4, -100, MPI_FLOAT},
                               {"f64", 8, -100, MPI_DOUBLE},
                               {"i32", 4, 0, MPI_INT},
                               {"i64", 8, 0, MPI_LONG_LONG},
                               {"i8", 1, 0, MPI_SIGNED_CHAR}};
  char operation[16] = "", name[8];
  size_t bytes = 0;
  int sums = 0, batches = 0;
  if (sscanf(word, "%7[^:]:%zu:%d:%d", name, &bytes, &sums, &batches) != 4 &&
      sscanf(word, "%15[^:]:%7[^:]:%zu:%d:%d", operation, name, &bytes, &sums, &batches) != 5) {
    return 2;
  }
  const struct type* type = NULL;
  for (size_t i = 0; i < sizeof(types) / sizeof(*types); ++i) {
    type = strcmp(name, types[i].name) == 0 ? &types[i] : type;
  }
  if (!type) {
    return 2;
  }
  /* Operations other than all_reduce write to a second buffer after the first. */
  char* data = aligned_alloc(4096, ((operation[0] ? 2 : 1) * bytes + 4095) / 4096 * 4096);
  double* times = malloc((size_t)batches * sizeof(*times));
  for (int i = -1; i < batches; ++i) { /* the first one is a warm-up */
    const int count = i < 0 && sums > 3 ? 3 : sums;
    const double spent = operation[0] ? batch_of_others(operation, type, data, bytes, count)
                                      : batch(type, data, bytes, count);
    times[i < 0 ? 0 : i] = spent / count;
  }
  MPI_Allreduce(MPI_IN_PLACE, times, batches, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%s%s%s:%zu %.9g\n",
           operation,
           operation[0] ? ":" : "",
           name,
           bytes,
           median(times, batches) * 1e6);
  }
  free(times);
  free(data);
  return 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int code = 0;
  for (int i = 1; i < argc && code == 0; ++i) {
    code = run(argv[i]);
  }
  MPI_Finalize();
  return code;
}
