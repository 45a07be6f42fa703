# The two commands of the README, and a few more; everything is set up on the way.
# The work is done by scripts in tools/; ./dev is the daily loop.
.DEFAULT_GOAL := help
.PHONY: run test build bench bench-peers bench-serving clean help
unexport MAKEFLAGS MFLAGS
comma := ,

run: build
	@tools/setup models smollm2
	@build/quire demo

build:
	@tools/setup build
	@tools/build release quire

test:
	@tools/setup packages test
	@tools/test

bench: build
	@tools/setup models smollm2
	@build/quire bench -m .models/SmolLM2-135M-Instruct.Q4_1.gguf --vs llama

# FULL=1: both models, 7 rounds instead of 3.
bench-peers:
	@tools/bench_peers $(if $(FULL),--full --models smollm2$(comma)qwen)

bench-serving:
	@tools/bench_serving

clean:
	@rm -rf build
	@echo "build/ is gone; .deps/ and .models/ stay (rm -rf them to fetch them anew)"

help:
	@echo "make run    build, fetch a small model, and show it reading a long text in little memory"
	@echo "make test   every check there is (a fresh machine: up to 30 minutes)"
	@echo "make build  leaves the program at build/quire"
	@echo "make bench  compares with libllama on this machine"
	@echo "make bench-peers  compares with llama.cpp and OpenVINO GenAI, set up beside (FULL=1: both models, 7 rounds)"
	@echo "make bench-serving  quire's server beside llama.cpp's and OpenVINO GenAI under the same load (over an hour)"
	@echo "make clean  removes build/"
