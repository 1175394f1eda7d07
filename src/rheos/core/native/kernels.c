/* Kernels for small batches: what a slot does with a batch between two calls of Python, as one call each.

   rheos_cut       hashes the keys of a batch, and gathers the rows of each target
   rheos_running   looks keys up, updates running aggregates, and appends them to the rows

   Batches come and go through Arrow's C data interface, without a copy of what does not change. Each
   kernel does exactly what its Python form does, over the same arrays, and keeps nothing between two
   calls. It returns PYTHON, and has changed nothing, if the Python form must do the work: for nulls in
   keys or in aggregated columns, unknown keys, sums beyond 64 bits, layouts that differ from the
   description, and if memory is short. It always releases the batch that it is given. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define PYTHON (-1)

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

/* --- descriptions, which Python fills ------------------------------------------------------------- */

enum Layout { FIXED, BITS, TEXT32, TEXT64 };

struct Column {
    int32_t layout; /* enum Layout */
    int32_t width;  /* bytes of a value, if FIXED */
};

enum Kind { INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32, FLOAT64, STRING32, STRING64 };

struct Values {
    int32_t column;
    int32_t kind;    /* enum Kind */
    uint64_t factor; /* of times: their unit in ns; else 1 */
};

enum Operation { COUNT, INT_SUM, FLOAT_SUM, INT_MEAN, FLOAT_MEAN, LEAST, GREATEST };

struct Cell {
    struct Values values; /* not for COUNT */
    int32_t operation;    /* enum Operation */
    int32_t width;        /* bytes of a result */
    void *total;          /* sums, or the best values; by slot */
    int64_t *count;       /* COUNT and means */
    uint8_t *seen;        /* sums and best values */
};

struct Running {
    const struct Column *columns;
    int32_t n_columns;
    int32_t n_cells;
    const struct Cell *cells;
    const int32_t *outputs; /* of each output column: its input column, or -1 - cell */
    int32_t n_outputs;
    int32_t by_hash; /* whether the table is open-addressing; else a word is the address of its slot */
    struct Values key;
    int64_t known;       /* number of slots */
    const int32_t *table;
    int64_t places;      /* addresses in the table; or its size less one */
    const uint64_t *words; /* of each slot, if by_hash */
    int64_t shift;
    uint8_t *changed;
};

/* --- memory --------------------------------------------------------------------------------------- */

/* One allocation has all arrays of an exported batch and their values. It is freed with the last of them,
   since a reader may move columns out of a batch, and release them in any order and thread. */
struct Block {
    atomic_long users;
};

static void leave(struct Block *block) {
    if (atomic_fetch_sub(&block->users, 1) == 1) free(block);
}

static void release_column(struct ArrowArray *column) {
    struct Block *block = column->private_data;
    column->release = NULL;
    leave(block);
}

static void release_batch(struct ArrowArray *batch) {
    struct Block *block = batch->private_data;
    for (int64_t i = 0; i < batch->n_children; i++)
        if (batch->children[i]->release) batch->children[i]->release(batch->children[i]);
    batch->release = NULL;
    leave(block);
}

static size_t padded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

/* The place of the next values in a block. */
static void *taken(uint8_t **at, size_t bytes) {
    void *place = *at;
    *at += padded(bytes);
    return place;
}

/* Allocate a block for a batch, and initialise the batch and its column arrays, whose buffers are empty.
   `at` is set to the place of the values. */
static struct Block *new_batch(struct ArrowArray *batch, int64_t rows, int32_t columns, size_t value_bytes,
                               uint8_t **at) {
    size_t heads = padded(sizeof(struct Block)) + padded(columns * sizeof(struct ArrowArray)) +
                   padded(columns * sizeof(void *)) + padded((3 * (size_t)columns + 1) * sizeof(void *));
    uint8_t *memory = malloc(heads + value_bytes + 64);
    if (!memory) return NULL;
    struct Block *block = (struct Block *)memory;
    atomic_init(&block->users, 1);
    *at = memory;
    taken(at, sizeof(struct Block));
    struct ArrowArray *arrays = taken(at, columns * sizeof(struct ArrowArray));
    struct ArrowArray **children = taken(at, columns * sizeof(void *));
    const void **buffers = taken(at, (3 * (size_t)columns + 1) * sizeof(void *));
    memset(buffers, 0, (3 * (size_t)columns + 1) * sizeof(void *));
    for (int32_t i = 0; i < columns; i++) {
        children[i] = &arrays[i];
        arrays[i] = (struct ArrowArray){rows, 0, 0, 2, 0, buffers + 3 * i, NULL, NULL, NULL, block};
    }
    *batch = (struct ArrowArray){rows, 0, 0, 1, columns, buffers + 3 * columns, children, NULL, release_batch, block};
    return block;
}

static void own(struct Block *block, struct ArrowArray *column) {
    column->release = release_column;
    atomic_fetch_add(&block->users, 1);
}

/* --- reading a batch ------------------------------------------------------------------------------ */

static int bit(const void *bits, int64_t at) { return ((const uint8_t *)bits)[at >> 3] >> (at & 7) & 1; }

static int has_nulls(const struct ArrowArray *column) {
    if (column->null_count == 0 || !column->buffers[0]) return 0;
    if (column->null_count > 0) return 1;
    for (int64_t row = 0; row < column->length; row++)
        if (!bit(column->buffers[0], column->offset + row)) return 1;
    return 0;
}

/* Whether the batch has the layout that the columns describe. */
static int fits(const struct ArrowArray *batch, const struct Column *columns, int32_t n_columns) {
    if (batch->n_children != n_columns || batch->offset || batch->length < 1) return 0;
    for (int32_t i = 0; i < n_columns; i++) {
        const struct ArrowArray *column = batch->children[i];
        int64_t buffers = columns[i].layout == TEXT32 || columns[i].layout == TEXT64 ? 3 : 2;
        if (column->length != batch->length || column->offset < 0 || column->n_buffers != buffers) return 0;
        if (column->dictionary || column->n_children || !column->buffers[1]) return 0;
    }
    return 1;
}

/* Values that came through a socket may be at any address. */
#define LOAD(name, type)                                        \
    static type name(const void *values, int64_t at) {          \
        type value;                                             \
        memcpy(&value, (const uint8_t *)values + at * (int64_t)sizeof value, sizeof value); \
        return value;                                           \
    }
LOAD(int8_at, int8_t)
LOAD(int16_at, int16_t)
LOAD(int32_at, int32_t)
LOAD(int64_at, int64_t)
LOAD(uint8_at, uint8_t)
LOAD(uint16_at, uint16_t)
LOAD(uint32_at, uint32_t)
LOAD(float_at, float)
LOAD(double_at, double)

static int64_t offset_of(const struct ArrowArray *column, int wide, int64_t row) {
    int64_t at = column->offset + row;
    return wide ? int64_at(column->buffers[1], at) : int32_at(column->buffers[1], at);
}

static int64_t whole(const struct ArrowArray *column, int32_t kind, int64_t row) {
    const void *values = column->buffers[1];
    int64_t at = column->offset + row;
    switch (kind) {
    case INT8: return int8_at(values, at);
    case INT16: return int16_at(values, at);
    case INT32: return int32_at(values, at);
    case UINT8: return uint8_at(values, at);
    case UINT16: return uint16_at(values, at);
    case UINT32: return uint32_at(values, at);
    default: return int64_at(values, at);
    }
}

static double real(const struct ArrowArray *column, int32_t kind, int64_t row) {
    int64_t at = column->offset + row;
    return kind == FLOAT32 ? float_at(column->buffers[1], at) : double_at(column->buffers[1], at);
}

/* --- keys ----------------------------------------------------------------------------------------- */

#define GAMMA UINT64_C(0x9E3779B97F4A7C15)
#define MIX1 UINT64_C(0xBF58476D1CE4E5B9)
#define MIX2 UINT64_C(0x94D049BB133111EB)

static uint64_t mix(uint64_t word) {
    word += GAMMA;
    word = (word ^ word >> 30) * MIX1;
    return (word ^ word >> 27) * MIX2;
}

static uint64_t finish(uint64_t mixed) { return mixed ^ mixed >> 31; }

/* The normalised value of a key that is no string. */
static uint64_t word_of(const struct ArrowArray *column, const struct Values *key, int64_t row) {
    if (key->kind != FLOAT32 && key->kind != FLOAT64) return (uint64_t)whole(column, key->kind, row) * key->factor;
    double value = real(column, key->kind, row) + 0.0; /* -0.0 becomes 0.0 */
    if (value != value) return UINT64_C(0x7FF8000000000000);
    uint64_t word;
    memcpy(&word, &value, 8);
    return word;
}

static uint64_t word_at(const uint8_t *text, int64_t left) {
    uint64_t word = 0;
    int64_t bytes = left < 8 ? left : 8;
    for (int64_t i = 0; i < bytes; i++) word |= (uint64_t)text[i] << 8 * i;
    return word;
}

static uint64_t mixed_text(const struct ArrowArray *column, int wide, int64_t row) {
    int64_t start = offset_of(column, wide, row), length = offset_of(column, wide, row + 1) - start;
    const uint8_t *text = (const uint8_t *)column->buffers[2] + start;
    uint64_t sum = finish(mix(word_at(text, length)));
    for (int64_t at = 8; at < length; at += 8) sum += finish(mix(word_at(text + at, length - at) + (uint64_t)at * MIX2));
    return mix(sum + (uint64_t)length * MIX1);
}

static uint64_t mixed_value(const struct ArrowArray *column, const struct Values *key, int64_t row) {
    if (key->kind == STRING32 || key->kind == STRING64) return mixed_text(column, key->kind == STRING64, row);
    return mix(word_of(column, key, row));
}

static uint64_t mixed_key(const struct ArrowArray *batch, const struct Values *keys, int32_t n_keys, int64_t row) {
    uint64_t mixed = mixed_value(batch->children[keys[0].column], &keys[0], row);
    for (int32_t i = 1; i < n_keys; i++) {
        uint64_t right = finish(mixed_value(batch->children[keys[i].column], &keys[i], row));
        mixed = mix(finish(mixed) * MIX1 ^ right);
    }
    return mixed;
}

/* --- the cut by target ---------------------------------------------------------------------------- */

/* Memory for the values of some rows, and an upper bound for `padded`. */
static size_t bytes_of(const struct ArrowArray *column, struct Column of, const int32_t *rows, int64_t count) {
    size_t bytes = padded((size_t)(count + 7) / 8);
    if (of.layout == FIXED) return bytes + padded((size_t)count * of.width);
    if (of.layout == BITS) return bytes + padded((size_t)(count + 7) / 8);
    int wide = of.layout == TEXT64;
    int64_t text = 0;
    for (int64_t i = 0; i < count; i++) text += offset_of(column, wide, rows[i] + 1) - offset_of(column, wide, rows[i]);
    return bytes + padded((size_t)(count + 1) * 8) + padded((size_t)text);
}

static void gather_bits(const void *from, int64_t offset, const int32_t *rows, int64_t count, uint8_t *to) {
    memset(to, 0, (size_t)(count + 7) / 8);
    for (int64_t i = 0; i < count; i++) to[i >> 3] |= (uint8_t)(bit(from, offset + rows[i]) << (i & 7));
}

static void gather_fixed(const uint8_t *from, size_t width, const int32_t *rows, int64_t count, uint8_t *to) {
    if (width == 8)
        for (int64_t i = 0; i < count; i++) ((int64_t *)to)[i] = int64_at(from, rows[i]);
    else if (width == 4)
        for (int64_t i = 0; i < count; i++) ((int32_t *)to)[i] = int32_at(from, rows[i]);
    else
        for (int64_t i = 0; i < count; i++) memcpy(to + i * width, from + rows[i] * width, width);
}

static void gather_text(const struct ArrowArray *column, int wide, const int32_t *rows, int64_t count,
                        struct ArrowArray *made, uint8_t **at) {
    void *offsets = taken(at, (size_t)(count + 1) * (wide ? 8 : 4));
    uint8_t *data = *at;
    int64_t end = 0;
    for (int64_t i = 0; i <= count; i++) {
        if (wide) ((int64_t *)offsets)[i] = end;
        else ((int32_t *)offsets)[i] = (int32_t)end;
        if (i == count) break;
        int64_t start = offset_of(column, wide, rows[i]), length = offset_of(column, wide, rows[i] + 1) - start;
        if (length) memcpy(data + end, (const uint8_t *)column->buffers[2] + start, (size_t)length);
        end += length;
    }
    taken(at, (size_t)end);
    made->n_buffers = 3;
    made->buffers[1] = offsets;
    made->buffers[2] = data;
}

/* Export some rows of a batch. Return whether there was memory. */
static int gather(const struct ArrowArray *batch, const struct Column *columns, const int32_t *rows, int64_t count,
                  struct ArrowArray *out) {
    int32_t n_columns = (int32_t)batch->n_children;
    size_t bytes = 0;
    for (int32_t i = 0; i < n_columns; i++) bytes += bytes_of(batch->children[i], columns[i], rows, count);
    uint8_t *at;
    struct Block *block = new_batch(out, count, n_columns, bytes, &at);
    if (!block) return 0;
    for (int32_t i = 0; i < n_columns; i++) {
        const struct ArrowArray *column = batch->children[i];
        struct ArrowArray *made = out->children[i];
        own(block, made);
        if (has_nulls(column)) {
            uint8_t *valid = taken(&at, (size_t)(count + 7) / 8);
            gather_bits(column->buffers[0], column->offset, rows, count, valid);
            made->buffers[0] = valid;
            made->null_count = -1;
        }
        if (columns[i].layout == FIXED) {
            size_t width = (size_t)columns[i].width;
            uint8_t *values = taken(&at, (size_t)count * width);
            gather_fixed((const uint8_t *)column->buffers[1] + column->offset * width, width, rows, count, values);
            made->buffers[1] = values;
        } else if (columns[i].layout == BITS) {
            uint8_t *values = taken(&at, (size_t)(count + 7) / 8);
            gather_bits(column->buffers[1], column->offset, rows, count, values);
            made->buffers[1] = values;
        } else {
            gather_text(column, columns[i].layout == TEXT64, rows, count, made, &at);
        }
    }
    return 1;
}

static int32_t cut(const struct ArrowArray *batch, const struct Column *columns, const struct Values *keys,
                   int32_t n_keys, int32_t targets, int32_t groups, int32_t *scratch, struct ArrowArray *out) {
    int64_t rows = batch->length;
    int32_t *owners = scratch, *order = scratch + rows, *ends = scratch + 2 * rows;
    memset(ends, 0, (size_t)(targets + 1) * sizeof(int32_t));
    for (int64_t row = 0; row < rows; row++) {
        /* The 31 highest bits choose the group. */
        uint64_t group = (mixed_key(batch, keys, n_keys, row) >> 33) * (uint64_t)groups >> 31;
        owners[row] = (int32_t)(group * (uint64_t)targets / (uint64_t)groups);
        ends[owners[row] + 1]++;
    }
    if (ends[owners[0] + 1] == rows) return owners[0];
    for (int32_t target = 0; target < targets; target++) ends[target + 1] += ends[target];
    for (int64_t row = 0; row < rows; row++) order[ends[owners[row]]++] = (int32_t)row;
    for (int32_t target = 0, start = 0; target < targets; start = ends[target++]) {
        if (ends[target] == start || gather(batch, columns, order + start, ends[target] - start, &out[target])) continue;
        for (int32_t made = 0; made < target; made++)
            if (out[made].release) out[made].release(&out[made]);
        return PYTHON;
    }
    return targets;
}

/* Cut a batch by key. Return the target that owns all rows, and export nothing; or `targets`, and export
   the rows of each target that has some to `out`; or PYTHON. */
int32_t rheos_cut(struct ArrowArray *batch, const struct Column *columns, int32_t n_columns,
                  const struct Values *keys, int32_t n_keys, int32_t targets, int32_t groups,
                  struct ArrowArray *out) {
    int32_t result = PYTHON;
    for (int32_t target = 0; target < targets; target++) out[target].release = NULL;
    int ok = fits(batch, columns, n_columns) && batch->length < INT32_MAX / 4;
    for (int32_t i = 0; ok && i < n_keys; i++) ok = !has_nulls(batch->children[keys[i].column]);
    int32_t *scratch = ok ? malloc((2 * (size_t)batch->length + (size_t)targets + 1) * sizeof(int32_t)) : NULL;
    if (scratch) result = cut(batch, columns, keys, n_keys, targets, groups, scratch, out);
    free(scratch);
    batch->release(batch);
    return result;
}

/* --- running aggregates --------------------------------------------------------------------------- */

/* The slot of a key; below 0 if it is unknown. */
static int32_t slot_of(const struct Running *state, uint64_t word) {
    if (!state->by_hash) return word < (uint64_t)state->places ? state->table[word] : -1;
    uint64_t place = word * UINT64_C(0x9E3779B97F4A7C15);
    place = ((place ^ place >> 32) * UINT64_C(0xD6E8FEB86659FD93)) >> state->shift;
    int32_t slot;
    while ((slot = state->table[place]) >= 0 && slot < state->known && state->words[slot] != word)
        place = (place + 1) & (uint64_t)state->places;
    return slot;
}

static int look_up(const struct Running *state, const struct ArrowArray *batch, const int32_t *given, int32_t *slots) {
    const struct ArrowArray *keys = batch->children[state->key.column];
    if (!given && has_nulls(keys)) return 0;
    for (int64_t row = 0; row < batch->length; row++) {
        slots[row] = given ? given[row] : slot_of(state, word_of(keys, &state->key, row));
        if (slots[row] < 0 || slots[row] >= state->known) return 0;
    }
    return 1;
}

/* Add whole numbers. Return the number of rows that were added before a sum that has no 64 bits. */
static int64_t add_whole(const struct Cell *cell, const struct ArrowArray *column, const int32_t *slots, int64_t rows,
                         int64_t *sums) {
    int64_t *totals = cell->total;
    for (int64_t row = 0; row < rows; row++) {
        int64_t value = whole(column, cell->values.kind, row);
        if (cell->values.kind == UINT64 && value < 0) return row;
        if (__builtin_add_overflow(totals[slots[row]], value, &sums[row])) return row;
        totals[slots[row]] = sums[row];
    }
    return rows;
}

static void take_back(const struct Cell *cell, const struct ArrowArray *column, const int32_t *slots, int64_t rows) {
    int64_t *totals = cell->total;
    while (rows--) totals[slots[rows]] -= whole(column, cell->values.kind, rows);
}

static int may_fail(const struct Cell *cell) { return cell->operation == INT_SUM || cell->operation == INT_MEAN; }

static void best(const struct Cell *cell, const struct ArrowArray *column, const int32_t *slots, int64_t rows, void *to) {
    int least = cell->operation == LEAST, is_unsigned = cell->values.kind >= UINT8;
    for (int64_t row = 0; row < rows; row++) {
        int64_t value = whole(column, cell->values.kind, row);
        int64_t known = cell->width == 4 ? (is_unsigned ? (int64_t)((uint32_t *)cell->total)[slots[row]]
                                                        : (int64_t)((int32_t *)cell->total)[slots[row]])
                                         : ((int64_t *)cell->total)[slots[row]];
        int less = cell->values.kind == UINT64 ? (uint64_t)value < (uint64_t)known : value < known;
        if (value != known && less == least) known = value;
        if (cell->width == 4) ((int32_t *)cell->total)[slots[row]] = ((int32_t *)to)[row] = (int32_t)known;
        else ((int64_t *)cell->total)[slots[row]] = ((int64_t *)to)[row] = known;
        cell->seen[slots[row]] = 1;
    }
}

/* Update a cell that cannot fail, or whose sums are in `to` already. */
static void update(const struct Cell *cell, const struct ArrowArray *column, const int32_t *slots, int64_t rows, void *to) {
    int64_t *numbers = to;
    double *reals = to, *totals = cell->total;
    switch (cell->operation) {
    case COUNT:
        for (int64_t row = 0; row < rows; row++) numbers[row] = ++cell->count[slots[row]];
        break;
    case INT_SUM:
        for (int64_t row = 0; row < rows; row++) cell->seen[slots[row]] = 1;
        break;
    case INT_MEAN:
        for (int64_t row = 0; row < rows; row++) {
            double sum = (double)numbers[row];
            reals[row] = sum / (double)++cell->count[slots[row]];
        }
        break;
    case FLOAT_SUM:
        for (int64_t row = 0; row < rows; row++) {
            reals[row] = totals[slots[row]] += real(column, cell->values.kind, row);
            cell->seen[slots[row]] = 1;
        }
        break;
    case FLOAT_MEAN:
        for (int64_t row = 0; row < rows; row++) {
            totals[slots[row]] += real(column, cell->values.kind, row);
            reals[row] = totals[slots[row]] / (double)++cell->count[slots[row]];
        }
        break;
    default: best(cell, column, slots, rows, to);
    }
}

static const struct ArrowArray *values_of(const struct ArrowArray *batch, const struct Cell *cell) {
    return cell->operation == COUNT && cell->values.column < 0 ? NULL : batch->children[cell->values.column];
}

/* Update all cells, with their results at `results`. Return whether none of them failed; if one did, no
   cell has changed. */
static int update_all(const struct Running *state, const struct ArrowArray *batch, const int32_t *slots, void **results) {
    int64_t rows = batch->length;
    for (int32_t i = 0; i < state->n_cells; i++) {
        const struct Cell *cell = &state->cells[i];
        if (!may_fail(cell)) continue;
        int64_t added = add_whole(cell, values_of(batch, cell), slots, rows, results[i]);
        if (added == rows) continue;
        take_back(cell, values_of(batch, cell), slots, added);
        while (i--)
            if (may_fail(&state->cells[i])) take_back(&state->cells[i], values_of(batch, &state->cells[i]), slots, rows);
        return 0;
    }
    for (int32_t i = 0; i < state->n_cells; i++)
        update(&state->cells[i], values_of(batch, &state->cells[i]), slots, rows, results[i]);
    for (int64_t row = 0; row < rows; row++) state->changed[slots[row]] = 1;
    return 1;
}

static int32_t run(const struct Running *state, struct ArrowArray *batch, const int32_t *given, void **results,
                   struct ArrowArray *out) {
    int64_t rows = batch->length;
    for (int32_t i = 0; i < state->n_cells; i++) {
        const struct ArrowArray *values = values_of(batch, &state->cells[i]);
        if (values && has_nulls(values)) return PYTHON;
    }
    size_t bytes = padded((size_t)rows * sizeof(int32_t)) + state->n_cells * padded((size_t)rows * 8);
    uint8_t *at;
    struct Block *block = new_batch(out, rows, state->n_outputs, bytes, &at);
    if (!block) return PYTHON;
    int32_t *slots = taken(&at, (size_t)rows * sizeof(int32_t));
    for (int32_t i = 0; i < state->n_cells; i++) results[i] = taken(&at, (size_t)rows * 8);
    if (!look_up(state, batch, given, slots) || !update_all(state, batch, slots, results)) {
        out->release(out);
        return PYTHON;
    }
    for (int32_t i = 0; i < state->n_outputs; i++) {
        int32_t from = state->outputs[i];
        if (from >= 0) { /* The column moves from one batch to the other. */
            *out->children[i] = *batch->children[from];
            batch->children[from]->release = NULL;
        } else {
            out->children[i]->buffers[1] = results[-1 - from];
            own(block, out->children[i]);
        }
    }
    return 0;
}

/* Update the running aggregates with a batch, and export its rows with the results to `out`. `given` has
   the slots of the rows; NULL: they are looked up. Return 0, or PYTHON. */
int32_t rheos_running(struct ArrowArray *batch, const struct Running *state, const int32_t *given,
                      struct ArrowArray *out) {
    int32_t result = PYTHON;
    out->release = NULL;
    void **results = malloc((state->n_cells + 1) * sizeof(void *));
    if (results && fits(batch, state->columns, state->n_columns)) result = run(state, batch, given, results, out);
    free(results);
    batch->release(batch);
    return result;
}

int32_t rheos_kernels_version(void) { return VERSION; }
