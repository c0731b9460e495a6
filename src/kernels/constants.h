/* SPDX-License-Identifier: Apache-2.0 */
/* Coefficients of the elementary functions, shared by all tiers so that they cannot drift apart. ref/math.h gives the
 * steps. */
#ifndef MLXCEL_KERNELS_CONSTANTS_H
#define MLXCEL_KERNELS_CONSTANTS_H

/* Adding and subtracting this rounds a float below 2^22 to an integer, ties to even; the low bits of the sum hold it. */
#define ROUND_MAGIC      12582912.0f
#define ROUND_MAGIC_BITS 0x4b400000

/* exp(x) = 2^n exp(r): n = rint(x / ln 2), r = x - n ln 2 in two parts; the polynomial is that of Cephes' expf. */
#define EXP_LOWEST  -87.0f /* below it the result is 0 */
#define EXP_HIGHEST 88.0f  /* above it the result is exp(88) */
#define EXP_LOG2E   1.44269504088896341f
#define EXP_LN2_HI  0.693359375f
#define EXP_LN2_LO  -2.12194440e-4f
#define EXP_C0      1.9875691500e-4f
#define EXP_C1      1.3981999507e-3f
#define EXP_C2      8.3334519073e-3f
#define EXP_C3      4.1665795894e-2f
#define EXP_C4      1.6666665459e-1f
#define EXP_C5      5.0000001201e-1f

/* tanh(x) = x + x z P(z), z = x^2, below TANH_BORDER (Cephes' tanhf); 1 - 2 / (exp(2 |x|) + 1) above. */
#define TANH_BORDER 0.625f
#define TANH_C0     -5.70498872745e-3f
#define TANH_C1     2.06390887954e-2f
#define TANH_C2     -5.37397155531e-2f
#define TANH_C3     1.33314422036e-1f
#define TANH_C4     -3.33332819422e-1f

/* erf(x) = x P(x^2) below 1; 1 - exp(-x^2) Q(1 / (1 + x / 2)) above. Least-maximum fits: relative error 1.3e-9 and
 * absolute error 1.2e-10 before rounding. */
#define ERF_P0 7.853857823647559e-05f
#define ERF_P1 -0.0008010192541405559f
#define ERF_P2 0.005188327748328447f
#define ERF_P3 -0.026853810995817184f
#define ERF_P4 0.1128358542919159f
#define ERF_P5 -0.3761262595653534f
#define ERF_P6 1.1283791065216064f
#define ERF_Q0 0.11870364844799042f
#define ERF_Q1 -0.46897590160369873f
#define ERF_Q2 0.559998631477356f
#define ERF_Q3 -0.10095223784446716f
#define ERF_Q4 0.3465101718902588f
#define ERF_Q5 0.2600632309913635f
#define ERF_Q6 0.28485211730003357f
#define ERF_Q7 -0.0001500381185906008f

/* log(1 + e) = 2 s (1 + s^2/3 + s^4/5 + ... + s^12/13), s = e / (2 + e), for 0 <= e <= 1: error below 1.5e-8. */
#define LOG1P_C0 0.076923076923f
#define LOG1P_C1 0.090909090909f
#define LOG1P_C2 0.111111111111f
#define LOG1P_C3 0.142857142857f
#define LOG1P_C4 0.2f
#define LOG1P_C5 0.333333333333f

#define GELU_SQRT_2_OVER_PI 0.7978845608028654f
#define GELU_CUBIC          0.044715f
#define SQRT_HALF           0.70710678118654752f

/* sin and cos in double, |r| <= pi/4 after r = x - n pi/2; pi/2 in two parts, the first of 33 bits. Coefficients of
 * fdlibm's kernel functions. */
#define TRIG_TWO_OVER_PI 6.36619772367581382433e-01
#define TRIG_PIO2_HI     1.57079632673412561417e+00
#define TRIG_PIO2_LO     6.07710050650619224932e-11
#define TRIG_ROUND       6755399441055744.0 /* 1.5 * 2^52 */
#define SIN_C1           -1.66666666666666324348e-01
#define SIN_C2           8.33333333332248946124e-03
#define SIN_C3           -1.98412698298579493134e-04
#define SIN_C4           2.75573137070700676789e-06
#define SIN_C5           -2.50507602534068634195e-08
#define SIN_C6           1.58969099521155010221e-10
#define COS_C1           4.16666666666666019037e-02
#define COS_C2           -1.38888888888741095749e-03
#define COS_C3           2.48015872894767294178e-05
#define COS_C4           -2.75573143513906633035e-07
#define COS_C5           2.08757232129817482790e-09
#define COS_C6           -1.13596475577881948265e-11

/* q8: blocks whose absolute maximum is below this count as zero (127 / absmax must stay finite). */
#define Q8_SMALLEST 0x1p-100f

#endif
