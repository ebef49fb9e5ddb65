#include "textflag.h"

// func kernelClock() uintptr
TEXT ·kernelClock(SB), NOSPLIT, $0-8
	MOVQ runtime·vdsoClockgettimeSym(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// func replaceClock()
TEXT ·replaceClock(SB), NOSPLIT, $0-0
	LEAQ ·clockGettime(SB), AX
	MOVQ AX, runtime·vdsoClockgettimeSym(SB)
	RET

// clockGettime has the calling convention of C: the id of the clock is in DI, and the address of the
// result, whose first word is the seconds, in SI. The runtime calls it on the stack of the system.
TEXT ·clockGettime(SB), NOSPLIT|NOFRAME, $0-0
	SUBQ $24, SP // aligns the stack, too
	MOVQ DI, 0(SP)
	MOVQ SI, 8(SP)
	MOVQ ·clockGettimeReal(SB), AX
	CALL AX
	MOVQ 0(SP), DI
	MOVQ 8(SP), SI
	ADDQ $24, SP
	TESTL DI, DI // CLOCK_REALTIME is 0
	JNE  done
	MOVQ ·clockOffset(SB), CX
	MOVQ (CX), CX
	ADDQ CX, (SI)
done:
	RET
