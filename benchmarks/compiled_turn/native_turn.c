/* A turn of a slot with few rows, as few native calls: what `native_turn.py` measures. Not a part of Rheos.

   send(slot, array)     hashes the keys of an exported batch (k int64, v float64, ts int64), cuts it by target,
                         keeps the own rows, and sends the others in one frame
   receive(slot, array)  waits 0 ms, takes the frames that have come, returns credits, adds all rows up, and
                         exports rows with count and sum to an Arrow array; returns the number of rows */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define SLOTS 8
#define MOST 4096
#define CELLS 65536

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

typedef struct { int64_t k; double v; int64_t ts; } Row;
typedef struct { uint32_t bytes, kind; int64_t watermark_ms; } Head;
typedef struct { int64_t key, count; double sum; int used; } Cell;
typedef struct {
    int epoll, out[SLOTS], in[SLOTS];
    int credits[SLOTS];
    Row waiting[MOST];
    int rows;
    int64_t watermark_ms[SLOTS];
    Cell cells[CELLS];
} Slot;

static Slot *slots[SLOTS];
static int count;

static uint64_t mixed(uint64_t h) {
    h ^= h >> 33; h *= 0xff51afd7ed558ccdULL; h ^= h >> 33; h *= 0xc4ceb9fe1a85ec53ULL;
    return h ^ h >> 33;
}

static PyObject *setup(PyObject *self, PyObject *args) { /* number of slots */
    if (!PyArg_ParseTuple(args, "i", &count) || count > SLOTS) return NULL;
    for (int i = 0; i < count; i++) {
        slots[i] = calloc(1, sizeof(Slot));
        slots[i]->epoll = epoll_create1(0);
    }
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++) {
            int pair[2];
            if (a == b) continue;
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair)) return PyErr_SetFromErrno(PyExc_OSError);
            slots[a]->out[b] = pair[0];
            slots[b]->in[a] = pair[1];
            slots[a]->credits[b] = 16;
            struct epoll_event mine = {EPOLLIN, {.u32 = b * 2}}, theirs = {EPOLLIN, {.u32 = a * 2 + 1}};
            epoll_ctl(slots[a]->epoll, EPOLL_CTL_ADD, pair[0], &mine);
            epoll_ctl(slots[b]->epoll, EPOLL_CTL_ADD, pair[1], &theirs);
        }
    Py_RETURN_NONE;
}

static PyObject *send_(PyObject *self, PyObject *args) { /* slot, pointer to an ArrowArray, watermark */
    int at; unsigned long long address; long long watermark_ms;
    if (!PyArg_ParseTuple(args, "iKL", &at, &address, &watermark_ms)) return NULL;
    Slot *slot = slots[at];
    struct ArrowArray *batch = (struct ArrowArray *)address;
    int64_t n = batch->length;
    const int64_t *k = (const int64_t *)batch->children[0]->buffers[1] + batch->children[0]->offset;
    const double *v = (const double *)batch->children[1]->buffers[1] + batch->children[1]->offset;
    const int64_t *ts = (const int64_t *)batch->children[2]->buffers[1] + batch->children[2]->offset;
    static Row cut[SLOTS][MOST];
    int rows[SLOTS] = {0};
    for (int64_t i = 0; i < n; i++) {
        int target = (int)((mixed((uint64_t)k[i]) % 128) * (uint64_t)count / 128);
        cut[target][rows[target]++] = (Row){k[i], v[i], ts[i]};
    }
    for (int target = 0; target < count; target++) {
        if (target == at) {
            memcpy(slot->waiting + slot->rows, cut[at], rows[at] * sizeof(Row));
            slot->rows += rows[at];
            slot->watermark_ms[at] = watermark_ms;
            continue;
        }
        if (!slot->credits[target]--) { PyErr_SetString(PyExc_RuntimeError, "no credit"); return NULL; }
        Head head = {sizeof(Head) + rows[target] * sizeof(Row), 1, watermark_ms};
        struct iovec parts[2] = {{&head, sizeof head}, {cut[target], rows[target] * sizeof(Row)}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        if (sendmsg(slot->out[target], &message, MSG_NOSIGNAL) != head.bytes) return PyErr_SetFromErrno(PyExc_OSError);
    }
    batch->release(batch);
    Py_RETURN_NONE;
}

static void released(struct ArrowArray *array) {
    for (int i = 0; i < array->n_children; i++) {
        if (array->children[i]->release) { free((void *)array->children[i]->buffers[1]); array->children[i]->release = NULL; }
    }
    free(array->private_data);
    array->release = NULL;
}

static void released_column(struct ArrowArray *column) { free((void *)column->buffers[1]); column->release = NULL; }

static PyObject *receive(PyObject *self, PyObject *args) { /* slot, pointer to an empty ArrowArray */
    int at; unsigned long long address;
    if (!PyArg_ParseTuple(args, "iK", &at, &address)) return NULL;
    Slot *slot = slots[at];
    struct epoll_event events[2 * SLOTS];
    int ready = epoll_wait(slot->epoll, events, 2 * SLOTS, 0);
    static char buffer[1 << 17];
    for (int e = 0; e < ready; e++) {
        int of = events[e].data.u32 / 2, credit = !(events[e].data.u32 & 1);
        ssize_t got = recv(credit ? slot->out[of] : slot->in[of], buffer, sizeof buffer, 0);
        if (got <= 0) return PyErr_SetFromErrno(PyExc_OSError);
        if (credit) { slot->credits[of] += (int)(got / 8); continue; }
        for (ssize_t read = 0; read < got;) {
            Head head;
            memcpy(&head, buffer + read, sizeof head);
            if (head.bytes < sizeof head || read + head.bytes > got || head.kind != 1) { PyErr_SetString(PyExc_ValueError, "frame"); return NULL; }
            int rows = (head.bytes - sizeof head) / sizeof(Row);
            memcpy(slot->waiting + slot->rows, buffer + read + sizeof head, rows * sizeof(Row));
            slot->rows += rows;
            slot->watermark_ms[of] = head.watermark_ms;
            read += head.bytes;
            int64_t one = 1;
            if (send(slot->in[of], &one, 8, MSG_NOSIGNAL) != 8) return PyErr_SetFromErrno(PyExc_OSError);
        }
    }
    int n = slot->rows;
    if (!n) return PyLong_FromLong(0);
    int64_t *k = malloc(n * 8), *ts = malloc(n * 8), *counts = malloc(n * 8);
    double *v = malloc(n * 8), *sums = malloc(n * 8);
    for (int i = 0; i < n; i++) {
        Row *row = slot->waiting + i;
        uint64_t place = mixed((uint64_t)row->k) % CELLS;
        while (slot->cells[place].used && slot->cells[place].key != row->k) place = (place + 1) % CELLS;
        Cell *cell = slot->cells + place;
        cell->used = 1; cell->key = row->k; cell->count++; cell->sum += row->v;
        k[i] = row->k; v[i] = row->v; ts[i] = row->ts; counts[i] = cell->count; sums[i] = cell->sum;
    }
    slot->rows = 0;
    struct ArrowArray *batch = (struct ArrowArray *)address;
    struct { struct ArrowArray columns[5], *children[5]; const void *buffers[5][2], *none[1]; } *all = calloc(1, sizeof *all);
    const void *data[5] = {k, v, ts, counts, sums};
    for (int i = 0; i < 5; i++) {
        all->buffers[i][1] = data[i];
        all->columns[i] = (struct ArrowArray){n, 0, 0, 2, 0, all->buffers[i], NULL, NULL, released_column, NULL};
        all->children[i] = &all->columns[i];
    }
    *batch = (struct ArrowArray){n, 0, 0, 1, 5, all->none, all->children, NULL, released, all};
    return PyLong_FromLong(n);
}

static PyMethodDef methods[] = {
    {"setup", setup, METH_VARARGS, NULL}, {"send", send_, METH_VARARGS, NULL}, {"receive", receive, METH_VARARGS, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native_turn", NULL, -1, methods};
PyMODINIT_FUNC PyInit_native_turn(void) { return PyModule_Create(&module); }
