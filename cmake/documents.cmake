# SPDX-License-Identifier: Apache-2.0
# Has the program at PROGRAM write its man pages and completions into FOLDER, by the names that they are installed under.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/man1 ${FOLDER}/bash ${FOLDER}/zsh ${FOLDER}/fish)

function(write_output file)
    execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${FOLDER}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

execute_process(COMMAND ${PROGRAM} man --list OUTPUT_VARIABLE commands OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" commands "${commands}")
write_output(man1/mlxcel.1 man)
foreach(command ${commands})
    write_output(man1/mlxcel-${command}.1 man ${command})
endforeach()
file(CREATE_LINK mlxcel-serve.1 ${FOLDER}/man1/mlxcel-server.1 SYMBOLIC)

# bash and fish look for a file by the program's name.
write_output(bash/mlxcel completion bash)
write_output(zsh/_mlxcel completion zsh)
write_output(fish/mlxcel.fish completion fish)
foreach(name mlxcel-server mlxcel-bench-decode)
    file(CREATE_LINK mlxcel ${FOLDER}/bash/${name} SYMBOLIC)
    file(CREATE_LINK mlxcel.fish ${FOLDER}/fish/${name}.fish SYMBOLIC)
endforeach()
