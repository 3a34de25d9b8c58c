/* One pass over dense records: scores, slopes and their sum by blocks of rows; docs/proofs.md, sec. 10.

   Every number is made by the same operations in the same order whatever the processor: a score in eight lanes, a
   gradient by fours of rows. So all variants give the same bits, which -ffast-math would not: it is refused.
   The file includes itself, once for each width of vectors. */
#ifndef WIDTH

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "sums must be rounded as they are written"
#endif

enum { LOGISTIC, SMOOTHED_HINGE, HUBER, SQUARED, LOSSES };
#define LANES 8
#define ROWS 8    /* whose slopes are found at once */
#define FOUR 4    /* rows that are read side by side */
#define AHEAD 16  /* rows between those that are fetched and those that are read */
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    const double *X, *y; /* y NULL: scores are all that is asked */
    Py_ssize_t d, block;
    int loss;
    double width;
} Records;

#define NAME2(name, width) name##_##width
#define NAME1(name, width) NAME2(name, width)
#define NAME(name) NAME1(name, WIDTH)
#define V NAME(Vector)
#define I NAME(Bits)
#define LOOSE NAME(Loose)
#define PARTS (LANES / WIDTH)
#define AT(p) (*(LOOSE *)(p))
#define HERE(p) (*(const LOOSE *)(p))

#define WIDTH 2
#define FOLD(v) (v[0] + v[1])
#define TARGET
#include "_kernel.c"
#if defined(__x86_64__)
#define WIDTH 4
#define FOLD(v) ((v[0] + v[2]) + (v[1] + v[3]))
#define TARGET __attribute__((target("avx2")))
#include "_kernel.c"
#endif

static double (*const variants[])(const Records *, const double *, Py_ssize_t, double *, double *, double *) = {
    pass_2,
#if defined(__x86_64__)
    pass_4,
#endif
};

static int usable(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") ? 2 : 1;
#else
    return 1;
#endif
}

/* Take an array of float64 in C order, of so many numbers unless that is negative. */
static int take(PyObject *array, Py_buffer *view, int flags, Py_ssize_t count) {
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) return -1;
    if (view->itemsize == 8 && view->format && !strcmp(view->format, "d") && (uintptr_t)view->buf % 8 == 0 &&
        (count < 0 || view->len / 8 == count))
        return 0;
    PyErr_SetString(PyExc_ValueError, "an array is not float64 in C order, or has another shape");
    return -1;
}

/* run(variant, loss, width, block, X, theta, y, counts, out, squares, scores): sums of w_k x_k and of w_k^2 of the first
   counts[b] rows of every member b of X (B, n, d), or (n, d), and scores. Without y, None, they are scores alone. */
static PyObject *run(PyObject *self, PyObject *args) {
    enum { ROWS_OF, THETA, LABELS, COUNTS, OUT, SQUARES, FOUND, ARRAYS };
    PyObject *given[ARRAYS], *result = NULL;
    Py_buffer views[ARRAYS];
    Records own;
    int variant;
    memset(views, 0, sizeof views);
    if (!PyArg_ParseTuple(args, "iidnOOOOOOO", &variant, &own.loss, &own.width, &own.block, given, given + 1, given + 2,
                          given + 3, given + 4, given + 5, given + 6))
        return NULL;
    double *part = NULL, *at[ARRAYS];
    if (take(given[ROWS_OF], views, 0, -1) < 0) goto end;
    Py_ssize_t n = views->ndim < 2 ? 0 : views->shape[views->ndim - 2], d = n ? views->shape[views->ndim - 1] : 0;
    Py_ssize_t members = n && d ? views->len / 8 / n / d : 0;
    const Py_ssize_t sizes[ARRAYS] = {-1, members * d, members * n, members, members * d, members, members * n};
    for (int k = THETA; k < ARRAYS; k++)
        if (given[k] != Py_None && take(given[k], views + k, k < OUT ? 0 : PyBUF_WRITABLE, sizes[k]) < 0) goto end;
    for (int k = 0; k < ARRAYS; k++) at[k] = views[k].buf;
    if (!members || !at[THETA] || !(at[LABELS] ? at[OUT] && at[SQUARES] : at[FOUND] != NULL) || variant < 0 ||
        variant >= usable() || own.loss < 0 || own.loss >= LOSSES || own.block < 1) {
        PyErr_SetString(PyExc_ValueError, "no records, no such variant, loss or block, or an array is missing");
        goto end;
    }
    if (!(part = malloc((size_t)d * sizeof *part))) {
        PyErr_NoMemory();
        goto end;
    }
    own.d = d;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t b = 0; b < members; b++) {
        double count = at[COUNTS] ? at[COUNTS][b] : (double)n, squares;
        own.X = at[ROWS_OF] + b * n * d;
        own.y = at[LABELS] ? at[LABELS] + b * n : NULL;
        squares = variants[variant](&own, at[THETA] + b * d, count >= 0 && count < (double)n ? (Py_ssize_t)count : n,
                                    at[OUT] ? at[OUT] + b * d : part, part, at[FOUND] ? at[FOUND] + b * n : NULL);
        if (at[SQUARES]) at[SQUARES][b] = squares;
    }
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
end:
    free(part);
    for (int k = 0; k < ARRAYS; k++) PyBuffer_Release(views + k);
    return result;
}

static int execute(PyObject *module) {
    if (PyModule_AddStringConstant(module, "NAME", "c1") < 0) return -1; /* another one with every change of bits */
    return PyModule_AddIntConstant(module, "VARIANTS", usable());
}

static PyMethodDef methods[] = {{"run", run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&definition); }

#else /* the arithmetic, WIDTH numbers at a time */

typedef double V __attribute__((vector_size(8 * WIDTH)));
typedef int64_t I __attribute__((vector_size(8 * WIDTH)));
typedef double LOOSE __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));

/* Rows one after the other: the processor fetches one stream ahead, and finds several to do at once by itself. */
TARGET INLINE double NAME(score)(const double *x, const double *t, Py_ssize_t d) {
    V s[PARTS] = {{0}};
    Py_ssize_t j = 0;
    for (; j + LANES <= d; j += LANES)
        for (int p = 0; p < PARTS; p++) s[p] += HERE(x + j + p * WIDTH) * HERE(t + j + p * WIDTH);
    for (int p = PARTS / 2; p; p /= 2)
        for (int q = 0; q < p; q++) s[q] += s[q + p];
    double u = FOLD(s[0]);
    for (; j < d; j++) u += x[j] * t[j];
    return u;
}

TARGET INLINE void NAME(add_four)(const double *const *x, const double *w, Py_ssize_t d, double *out) {
    Py_ssize_t j = 0;
    for (; j + LANES <= d; j += LANES) {
        for (int k = 0; k < FOUR; k++) __builtin_prefetch(x[0] + AHEAD * d + FOUR * j + LANES * k);
        for (int k = j; k < j + LANES; k += WIDTH)
            AT(out + k) += (HERE(x[0] + k) * w[0] + HERE(x[1] + k) * w[1]) +
                           (HERE(x[2] + k) * w[2] + HERE(x[3] + k) * w[3]);
    }
    for (; j < d; j++) out[j] += (x[0][j] * w[0] + x[1][j] * w[1]) + (x[2][j] * w[2] + x[3][j] * w[3]);
}

/* x held to [low, high]; nan stays. */
TARGET INLINE V NAME(clip)(V x, double low, double high) {
    V none = {0};
    I below = x < low, above = x > high;
    return (V)(((I)x & ~(below | above)) | (below & (I)(none + low)) | (above & (I)(none + high)));
}

/* exp of x in [-64, 709], nan of nan. 2^k exp(r), the nearest k to x / ln 2 and |r| <= 0.347: Taylor to degree 13. */
TARGET INLINE V NAME(exponential)(V x) {
    V shifted = x * 0x1.71547652b82fep+0 + 0x1.8p+52, k = shifted - 0x1.8p+52;
    V r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
    V p = r * 0x1.6124613a86d09p-33 + 0x1.1eed8eff8d898p-29;
    p = p * r + 0x1.ae64567f544e4p-26;
    p = p * r + 0x1.27e4fb7789f5cp-22;
    p = p * r + 0x1.71de3a556c734p-19;
    p = p * r + 0x1.a01a01a01a01ap-16;
    p = p * r + 0x1.a01a01a01a01ap-13;
    p = p * r + 0x1.6c16c16c16c17p-10;
    p = p * r + 0x1.1111111111111p-7;
    p = p * r + 0x1.5555555555555p-5;
    p = p * r + 0x1.5555555555555p-3;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * (V)(((I)shifted + 1023) << 52);
}

/* Slopes w of the losses at ROWS scores u, as losses.py has them. */
TARGET INLINE void NAME(slopes)(int loss, double h, const double *u, const double *y, double *w) {
    double top = 1.0 + h, rest = (h < 1.0 ? h : 1.0) - (top - (h < 1.0 ? 1.0 : h));
    for (int k = 0; k < ROWS; k += WIDTH) {
        V score = HERE(u + k), label = HERE(y + k), found;
        if (loss == LOGISTIC)
            found = -(label / (1.0 + NAME(exponential)(NAME(clip)(label * score, -64.0, 709.0))));
        else if (loss == SMOOTHED_HINGE)
            found = NAME(clip)((top - label * score) + rest, 0.0, 2.0 * h) / (-2.0 * h) * label;
        else
            found = loss == HUBER ? NAME(clip)(score - label, -h, h) : score - label;
        AT(w + k) = found;
    }
}

/* Sums and scores of n rows; beyond the last of a block it stands in, and weighs nothing. */
TARGET static double NAME(pass)(const Records *own, const double *t, Py_ssize_t n, double *out, double *part,
                                double *scores) {
    Py_ssize_t d = own->d;
    double lanes[ROWS] = {0};
    memset(out, 0, (size_t)d * sizeof *out);
    for (Py_ssize_t start = 0; start < n; start += own->block) {
        Py_ssize_t stop = n - start < own->block ? n : start + own->block;
        double *into = start ? part : out;
        if (start) memset(part, 0, (size_t)d * sizeof *part);
        for (Py_ssize_t i = start; i < stop; i += ROWS) {
            const double *x[ROWS], *label = own->y ? own->y + i : NULL;
            double tail[ROWS] = {0}, found[ROWS] = {0}, w[ROWS], *u = scores ? scores + i : found;
            Py_ssize_t count = stop - i < ROWS ? stop - i : ROWS;
            if (count < ROWS) u = found;
            for (Py_ssize_t k = 0; k < ROWS; k++) x[k] = own->X + (i + k < stop ? i + k : stop - 1) * d;
            for (Py_ssize_t k = 0; k < count; k++) u[k] = NAME(score)(x[k], t, d);
            for (Py_ssize_t k = 0; scores && u == found && k < count; k++) scores[i + k] = u[k];
            if (!own->y) continue;
            if (count < ROWS) label = memcpy(tail, label, (size_t)count * sizeof *tail);
            NAME(slopes)(own->loss, own->width, u, label, w);
            for (Py_ssize_t k = count; k < ROWS; k++) w[k] = 0.0;
            for (int k = 0; k < ROWS; k++) lanes[k] += w[k] * w[k];
            for (Py_ssize_t k = 0; k < count; k += FOUR) NAME(add_four)(x + k, w + k, d, into);
        }
        for (Py_ssize_t j = 0; start && j < d; j++) out[j] += part[j];
    }
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

#undef WIDTH
#undef FOLD
#undef TARGET
#endif
