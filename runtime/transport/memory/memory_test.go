package memory_test

import (
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/transporttest"
)

func TestPairKeepsTheContractOfTransports(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, stall time.Duration, queue int) transporttest.Ends {
		a, b := memory.Pair(memory.Options{StallTimeout: stall, MaxQueue: queue})
		return transporttest.Ends{A: a, B: b}
	})
}
