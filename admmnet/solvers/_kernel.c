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
    const double *X, *y;
    Py_ssize_t n, d, block;
    int loss;
    double width;
} Records;

/* Fetch lines of rows that are read soon, in the order in which they lie. */
INLINE void fetch(const double *ahead, int lines) {
    for (int k = 0; k < lines; k++) __builtin_prefetch(ahead + LANES * k);
}

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

typedef double (*Gradient)(const Records *, const double *, Py_ssize_t, double *, double *, double *);
typedef void (*Scores)(const Records *, const double *, double *);

static const struct {
    Gradient gradient;
    Scores scores;
} variants[] = {
    {gradient_2, scores_2},
#if defined(__x86_64__)
    {gradient_4, scores_4},
#endif
};

static int usable(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") ? 2 : 1;
#else
    return 1;
#endif
}

/* Take an array of float64 in C order, of so many numbers unless that is negative; None is allowed where it may be. */
static int take(PyObject *array, Py_buffer *view, int flags, Py_ssize_t count) {
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) return -1;
    if (view->itemsize == 8 && view->format && !strcmp(view->format, "d") && (uintptr_t)view->buf % 8 == 0 &&
        (count < 0 || view->len / 8 == count))
        return 0;
    PyErr_SetString(PyExc_ValueError, "an array is not float64 in C order, or has another shape");
    return -1;
}

static int chosen(int variant, const Py_buffer *X, Records *records) {
    records->X = X->buf;
    if (X->ndim >= 2 && X->shape[X->ndim - 2] > 0 && X->shape[X->ndim - 1] > 0 && variant >= 0 && variant < usable()) {
        records->n = X->shape[X->ndim - 2];
        records->d = X->shape[X->ndim - 1];
        return 0;
    }
    PyErr_SetString(PyExc_ValueError, "no records, or no such variant");
    return -1;
}

/* gradient(variant, X, y, theta, counts, loss, width, block, out, squares, scores): sums of w_k x_k and of w_k^2 of the
   first counts[b] rows of every member b of X (B, n, d), or (n, d); counts and scores may be None. */
static PyObject *gradient(PyObject *self, PyObject *args) {
    PyObject *given[7], *result = NULL;
    Py_buffer views[7];
    Records own;
    int variant;
    memset(views, 0, sizeof views);
    if (!PyArg_ParseTuple(args, "iOOOOidnOOO", &variant, given, given + 1, given + 2, given + 3, &own.loss, &own.width,
                          &own.block, given + 4, given + 5, given + 6))
        return NULL;
    Py_buffer *X = views, *y = views + 1, *theta = views + 2, *counts = views + 3, *out = views + 4,
              *squares = views + 5, *scores = views + 6;
    double *part = NULL;
    if (take(given[0], X, 0, -1) < 0 || chosen(variant, X, &own) < 0) goto end;
    Py_ssize_t n = own.n, d = own.d, members = X->len / 8 / n / d;
    if (take(given[1], y, 0, members * n) < 0 || take(given[2], theta, 0, members * d) < 0) goto end;
    if (given[3] != Py_None && take(given[3], counts, 0, members) < 0) goto end;
    if (take(given[4], out, PyBUF_WRITABLE, members * d) < 0) goto end;
    if (take(given[5], squares, PyBUF_WRITABLE, members) < 0) goto end;
    if (given[6] != Py_None && take(given[6], scores, PyBUF_WRITABLE, members * n) < 0) goto end;
    if (own.loss < 0 || own.loss >= LOSSES || own.block < 1) {
        PyErr_SetString(PyExc_ValueError, "no such loss or block");
        goto end;
    }
    if (!(part = malloc((size_t)d * sizeof *part))) {
        PyErr_NoMemory();
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t b = 0; b < members; b++) {
        double asked = counts->buf ? ((const double *)counts->buf)[b] : (double)n;
        own.X = (const double *)X->buf + b * n * d;
        own.y = (const double *)y->buf + b * n;
        ((double *)squares->buf)[b] = variants[variant].gradient(
            &own, (const double *)theta->buf + b * d, asked >= 0 && asked < (double)n ? (Py_ssize_t)asked : n,
            (double *)out->buf + b * d, part, scores->buf ? (double *)scores->buf + b * n : NULL);
    }
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
end:
    free(part);
    for (int k = 0; k < 7; k++) PyBuffer_Release(views + k);
    return result;
}

/* scores(variant, X, theta, out): x_k . theta of the rows of X (n, d), to the bit as gradient has them. */
static PyObject *scores(PyObject *self, PyObject *args) {
    PyObject *given[3], *result = NULL;
    Py_buffer views[3];
    Records own;
    int variant;
    memset(views, 0, sizeof views);
    if (!PyArg_ParseTuple(args, "iOOO", &variant, given, given + 1, given + 2)) return NULL;
    if (take(given[0], views, 0, -1) < 0 || chosen(variant, views, &own) < 0) goto end;
    if (take(given[1], views + 1, 0, own.d) < 0) goto end;
    if (take(given[2], views + 2, PyBUF_WRITABLE, views[0].len / 8 / own.d) < 0) goto end;
    own.n = views[0].len / 8 / own.d;
    Py_BEGIN_ALLOW_THREADS
    variants[variant].scores(&own, views[1].buf, views[2].buf);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
end:
    for (int k = 0; k < 3; k++) PyBuffer_Release(views + k);
    return result;
}

static int execute(PyObject *module) { return PyModule_AddIntConstant(module, "VARIANTS", usable()); }

static PyMethodDef methods[] = {
    {"gradient", gradient, METH_VARARGS, NULL}, {"scores", scores, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&definition); }

#else /* the arithmetic, WIDTH numbers at a time */

typedef double V __attribute__((vector_size(8 * WIDTH)));
typedef int64_t I __attribute__((vector_size(8 * WIDTH)));
typedef double LOOSE __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));

TARGET INLINE void NAME(four_scores)(const double *const *x, const double *t, Py_ssize_t d, double *u, int lines) {
    V s[FOUR][PARTS], none = {0};
    for (int i = 0; i < FOUR; i++)
        for (int p = 0; p < PARTS; p++) s[i][p] = none;
    Py_ssize_t j = 0;
    for (; j + LANES <= d; j += LANES) {
        fetch(x[0] + AHEAD * d + FOUR * j, lines);
        for (int p = 0; p < PARTS; p++) {
            V own = HERE(t + j + p * WIDTH);
            for (int i = 0; i < FOUR; i++) s[i][p] += HERE(x[i] + j + p * WIDTH) * own;
        }
    }
    for (int i = 0; i < FOUR; i++) {
        for (int p = PARTS / 2; p; p /= 2)
            for (int q = 0; q < p; q++) s[i][q] += s[i][q + p];
        u[i] = FOLD(s[i][0]);
    }
    for (; j < d; j++)
        for (int i = 0; i < FOUR; i++) u[i] += x[i][j] * t[j];
}

TARGET INLINE void NAME(add_four)(const double *const *x, const double *w, Py_ssize_t d, double *out) {
    Py_ssize_t j = 0;
    for (; j + LANES <= d; j += LANES) {
        fetch(x[0] + AHEAD * d + FOUR * j + 2 * LANES, 2);
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

/* Pointers to ROWS rows from the first on; beyond the last of n it stands in. */
INLINE void NAME(rows)(const Records *own, Py_ssize_t first, Py_ssize_t n, const double **x) {
    for (int k = 0; k < ROWS; k++) x[k] = own->X + (first + k < n ? first + k : n - 1) * own->d;
}

TARGET static double NAME(gradient)(const Records *own, const double *t, Py_ssize_t n, double *out, double *part,
                                    double *scores) {
    Py_ssize_t d = own->d;
    double lanes[ROWS] = {0};
    memset(out, 0, (size_t)d * sizeof *out);
    for (Py_ssize_t start = 0; start < n; start += own->block) {
        Py_ssize_t stop = n - start < own->block ? n : start + own->block;
        double *into = start ? part : out;
        if (start) memset(part, 0, (size_t)d * sizeof *part);
        for (Py_ssize_t i = start; i < stop; i += ROWS) {
            const double *x[ROWS], *label = own->y + i;
            double tail[ROWS] = {0}, found[ROWS] = {0}, w[ROWS], *u = scores ? scores + i : found;
            Py_ssize_t count = stop - i < ROWS ? stop - i : ROWS;
            if (count < ROWS) {
                for (Py_ssize_t k = 0; k < count; k++) tail[k] = label[k];
                label = tail, u = found;
            }
            NAME(rows)(own, i, stop, x);
            for (Py_ssize_t k = 0; k < count; k += FOUR) NAME(four_scores)(x + k, t, d, u + k, 2);
            NAME(slopes)(own->loss, own->width, u, label, w);
            for (Py_ssize_t k = count; k < ROWS; k++) w[k] = 0.0;
            for (Py_ssize_t k = 0; scores && u == found && k < count; k++) scores[i + k] = u[k];
            for (int k = 0; k < ROWS; k++) lanes[k] += w[k] * w[k];
            for (Py_ssize_t k = 0; k < count; k += FOUR) NAME(add_four)(x + k, w + k, d, into);
        }
        for (Py_ssize_t j = 0; start && j < d; j++) out[j] += part[j];
    }
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

TARGET static void NAME(scores)(const Records *own, const double *t, double *out) {
    for (Py_ssize_t i = 0; i < own->n; i += FOUR) {
        const double *x[ROWS];
        double u[FOUR];
        Py_ssize_t count = own->n - i < FOUR ? own->n - i : FOUR;
        NAME(rows)(own, i, own->n, x);
        NAME(four_scores)(x, t, own->d, u, FOUR);
        memcpy(out + i, u, (size_t)count * sizeof *u);
    }
}

#undef WIDTH
#undef FOLD
#undef TARGET
#endif
