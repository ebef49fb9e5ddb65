//go:build !purego

#include "textflag.h"

// What these functions do stands in vector_amd64.go. They read and write nothing outside of what they are given, and
// need AVX2. Only BSFQ finds the lowest bit, for TZCNT is not part of AVX2; it is never asked about zero.

#define BYTES32(name, low, high) \
	DATA name<>+0(SB)/8, $low; \
	DATA name<>+8(SB)/8, $high; \
	DATA name<>+16(SB)/8, $low; \
	DATA name<>+24(SB)/8, $high; \
	GLOBL name<>(SB), RODATA|NOPTR, $32

BYTES32(quote, 0x2222222222222222, 0x2222222222222222)
BYTES32(slash, 0x5C5C5C5C5C5C5C5C, 0x5C5C5C5C5C5C5C5C)
BYTES32(control, 0x1F1F1F1F1F1F1F1F, 0x1F1F1F1F1F1F1F1F)

#define SPECIALS \
	VMOVDQU quote<>(SB), Y4; \
	VMOVDQU slash<>(SB), Y5; \
	VMOVDQU control<>(SB), Y6; \
	VPXOR Y7, Y7, Y7

// MARK sets the bits of mask where the bytes of x are quotes, backslashes or control characters, and lays x over Y7.
#define MARK(x, mask) \
	VPOR x, Y7, Y7; \
	VPCMPEQB x, Y4, Y2; \
	VPCMPEQB x, Y5, Y3; \
	VPMINUB x, Y6, Y8; \
	VPOR Y2, Y3, Y3; \
	VPCMPEQB x, Y8, Y8; \
	VPOR Y8, Y3, Y3; \
	VPMOVMSKB Y3, mask

// MARK64 loads 64 bytes at SI into Y0 and Y1, and sets the bits of R8 as MARK does; the last instruction sets the flag
// of zero.
#define MARK64 \
	VMOVDQU (SI), Y0; \
	VMOVDQU 32(SI), Y1; \
	MARK(Y0, R8); \
	MARK(Y1, R9); \
	SHLQ $32, R9; \
	ORQ R9, R8

// func escapeBlocks(dst []byte, s string, table *[256]uint64) (n, i int, beyond bool)
TEXT ·escapeBlocks(SB), NOSPLIT, $0-65
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), R13
	MOVQ s_base+24(FP), SI
	MOVQ s_len+32(FP), R12
	MOVQ table+40(FP), R14
	SPECIALS
	SUBQ $448, R13 // a block at its longest, and what is written too much
	JLT  done
	SUBQ $128, R12 // a block, and what is read too much
	JLT  done
	ADDQ DI, R13   // the last place to write a block to
	ADDQ SI, R12   // the last block

block:
	CMPQ SI, R12
	JHI  done
	CMPQ DI, R13
	JHI  done
	MARK64
	JZ   plain
	MOVQ SI, BX // what is copied next

special:
	BSFQ    R8, DX
	ADDQ    SI, DX // where the special one is
	MOVBLZX (DX), AX
	MOVQ    (R14)(AX*8), AX

run:
	// What is too much will be written over.
	VMOVDQU (BX), Y0
	VMOVDQU Y0, (DI)
	MOVQ    DX, R9
	SUBQ    BX, R9
	CMPQ    R9, $32
	JHI     long
	ADDQ    R9, DI
	MOVQ    AX, (DI)
	SHRQ    $56, AX
	ADDQ    AX, DI
	LEAQ    1(DX), BX
	LEAQ    -1(R8), R9
	ANDQ    R9, R8
	JNZ     special

	// The rest of the block.
	ADDQ    $64, SI
	VMOVDQU (BX), Y0
	VMOVDQU 32(BX), Y1
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ    SI, DI
	SUBQ    BX, DI
	JMP     block

long:
	ADDQ $32, BX
	ADDQ $32, DI
	JMP  run

plain:
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	JMP     block

done:
	SUBQ      dst_base+0(FP), DI
	SUBQ      s_base+24(FP), SI
	MOVQ      DI, n+48(FP)
	MOVQ      SI, i+56(FP)
	VPMOVMSKB Y7, AX
	VZEROUPPER
	TESTL     AX, AX
	SETNE     beyond+64(FP)
	RET

// plain moves SI, behind which there are R12 bytes, on to the first 64 bytes that are not plain, or nearly to the end.
TEXT plain<>(SB), NOSPLIT, $0-0
	SPECIALS
	SUBQ $64, R12
	JLT  done
	ADDQ SI, R12

block:
	CMPQ      SI, R12
	JHI       done
	MARK64
	JNZ       done
	VPMOVMSKB Y7, AX
	TESTL     AX, AX
	JNZ       done
	ADDQ      $64, SI
	JMP       block

done:
	VZEROUPPER
	RET

// func plainText(s string) (n int)
TEXT ·plainText(SB), NOSPLIT, $0-24
	MOVQ s_base+0(FP), SI
	MOVQ s_len+8(FP), R12
	CALL plain<>(SB)
	SUBQ s_base+0(FP), SI
	MOVQ SI, n+16(FP)
	RET

// func plainBytes(data []byte) (n int)
TEXT ·plainBytes(SB), NOSPLIT, $0-32
	MOVQ data_base+0(FP), SI
	MOVQ data_len+8(FP), R12
	CALL plain<>(SB)
	SUBQ data_base+0(FP), SI
	MOVQ SI, n+24(FP)
	RET

// func contentBlocks(data []byte, short *[256]byte) (n int, beyond, escaped bool)
TEXT ·contentBlocks(SB), NOSPLIT, $0-42
	MOVQ data_base+0(FP), SI
	MOVQ data_len+8(FP), R12
	MOVQ short+24(FP), R14
	XORL R13, R13
	SPECIALS
	SUBQ $65, R12 // a block, and the byte behind it
	JLT  done
	ADDQ SI, R12  // the last block

block:
	CMPQ SI, R12
	JHI  done
	MARK64
	JZ   next

special:
	BSFQ    R8, CX
	CMPB    (SI)(CX*1), $0x5C
	JNE     stop
	MOVBLZX 1(SI)(CX*1), AX
	CMPB    (R14)(AX*1), $0
	JEQ     stop
	MOVL    $1, R13
	CMPQ    CX, $63
	JEQ     over
	// Neither the backslash nor the byte behind it counts any more.
	MOVL    $3, AX
	SHLQ    CX, AX
	NOTQ    AX
	ANDQ    AX, R8
	JNZ     special

next:
	ADDQ $64, SI
	JMP  block

over:
	ADDQ $65, SI
	JMP  block

stop:
	ADDQ CX, SI

done:
	SUBQ      data_base+0(FP), SI
	MOVQ      SI, n+32(FP)
	VPMOVMSKB Y7, AX
	VZEROUPPER
	TESTL     AX, AX
	SETNE     beyond+40(FP)
	MOVB      R13, escaped+41(FP)
	RET

// The check of UTF-8 looks at each byte and the one in front of it. Three tables, by the high and the low half of the
// first and by the high half of the second, say which faults either half allows; what all three allow is one. Faults:
//
//	01  a sequence ends too early        02  a byte goes on where nothing began
//	04  three bytes for what takes two   08  beyond U+10FFFF
//	10  a surrogate                      20  two bytes for what takes one
//	40  four bytes for what takes three, or beyond U+10FFFF
//	80  a byte goes on behind one that does: right for third and fourth bytes, and for none but them
//
// (John Keiser and Daniel Lemire, Validating UTF-8 in less than one instruction per byte, 2021.)
BYTES32(firstHigh, 0x0202020202020202, 0x4915012180808080)
BYTES32(firstLow, 0xCBCBCB8B8383A3E7, 0xCBCBDBCBCBCBCBCB)
BYTES32(secondHigh, 0x0101010101010101, 0x01010101BABAAEE6)
BYTES32(half, 0x0F0F0F0F0F0F0F0F, 0x0F0F0F0F0F0F0F0F)
BYTES32(top, 0x8080808080808080, 0x8080808080808080)
BYTES32(third, 0x6060606060606060, 0x6060606060606060)  // 0xE0 less 0x80
BYTES32(fourth, 0x7070707070707070, 0x7070707070707070) // 0xF0 less 0x80

// The last three bytes at their highest, or a sequence is cut off.
DATA cut<>+0(SB)/8, $0xFFFFFFFFFFFFFFFF
DATA cut<>+8(SB)/8, $0xFFFFFFFFFFFFFFFF
DATA cut<>+16(SB)/8, $0xFFFFFFFFFFFFFFFF
DATA cut<>+24(SB)/8, $0xBFDFEFFFFFFFFFFF
GLOBL cut<>(SB), RODATA|NOPTR, $32

// FAULTS adds to Y7 the faults of the 32 bytes in Y0, where Y1, Y2 and Y3 have those one, two and three bytes before.
#define FAULTS \
	VPSRLW $4, Y1, Y4; \
	VPAND Y8, Y4, Y4; \
	VPSHUFB Y4, Y9, Y4; \
	VPAND Y8, Y1, Y1; \
	VPSHUFB Y1, Y10, Y1; \
	VPAND Y1, Y4, Y4; \
	VPSRLW $4, Y0, Y1; \
	VPAND Y8, Y1, Y1; \
	VPSHUFB Y1, Y11, Y1; \
	VPAND Y1, Y4, Y4; \
	VPSUBUSB Y12, Y2, Y2; \
	VPSUBUSB Y13, Y3, Y3; \
	VPOR Y2, Y3, Y3; \
	VPAND Y14, Y3, Y3; \
	VPXOR Y3, Y4, Y4; \
	VPOR Y4, Y7, Y7

// CHECK is FAULTS for the 32 bytes off from SI on.
#define CHECK(off) \
	VMOVDQU off(SI), Y0; \
	VMOVDQU off-1(SI), Y1; \
	VMOVDQU off-2(SI), Y2; \
	VMOVDQU off-3(SI), Y3; \
	FAULTS

// utf8 reports in AX whether the DX bytes at SI, at least 35 of them, are UTF-8.
TEXT utf8<>(SB), NOSPLIT, $0-0
	VMOVDQU half<>(SB), Y8
	VMOVDQU firstHigh<>(SB), Y9
	VMOVDQU firstLow<>(SB), Y10
	VMOVDQU secondHigh<>(SB), Y11
	VMOVDQU third<>(SB), Y12
	VMOVDQU fourth<>(SB), Y13
	VMOVDQU top<>(SB), Y14
	VPXOR   Y7, Y7, Y7
	LEAQ    -32(SI)(DX*1), DX // the last 32 bytes, some of which may be checked twice
	LEAQ    -32(DX), BX

	// In front of the first 32 bytes there is nothing.
	VMOVDQU    (SI), Y0
	VPERM2I128 $0x08, Y0, Y0, Y3
	VPALIGNR   $15, Y3, Y0, Y1
	VPALIGNR   $14, Y3, Y0, Y2
	VPALIGNR   $13, Y3, Y0, Y3
	FAULTS
	ADDQ       $32, SI

block:
	CMPQ    SI, BX
	JHI     last
	// Nothing is wrong with ASCII behind ASCII.
	VMOVDQU -3(SI), Y0
	VPOR    29(SI), Y0, Y0
	VPOR    32(SI), Y0, Y0
	VPTEST  Y14, Y0
	JZ      next
	CHECK(0)
	CHECK(32)

next:
	ADDQ $64, SI
	JMP  block

last:
	CMPQ SI, DX
	JHI  end
	CHECK(0)

end:
	MOVQ     DX, SI
	CHECK(0)
	VPSUBUSB cut<>(SB), Y0, Y0
	VPOR     Y0, Y7, Y7
	XORL     AX, AX
	VPTEST   Y7, Y7
	SETEQ    AX
	VZEROUPPER
	RET

// func utf8Text(s string) (ok bool)
TEXT ·utf8Text(SB), NOSPLIT, $0-17
	MOVQ s_base+0(FP), SI
	MOVQ s_len+8(FP), DX
	CALL utf8<>(SB)
	MOVB AX, ok+16(FP)
	RET

// func utf8Bytes(data []byte) (ok bool)
TEXT ·utf8Bytes(SB), NOSPLIT, $0-25
	MOVQ data_base+0(FP), SI
	MOVQ data_len+8(FP), DX
	CALL utf8<>(SB)
	MOVB AX, ok+24(FP)
	RET

// func cpuid(function uint32) (eax, ebx, ecx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-20
	MOVL function+0(FP), AX
	XORL CX, CX
	CPUID
	MOVL AX, eax+8(FP)
	MOVL BX, ebx+12(FP)
	MOVL CX, ecx+16(FP)
	RET

// func savedState() (low uint32)
TEXT ·savedState(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, low+0(FP)
	RET
